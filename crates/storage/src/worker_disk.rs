//! The disk of a worker, as its replicas have to do with it: what they want kept goes into the worker's log and into snapshots,
//! and they are told when it is.
//!
//! ```text
//!   DiskRequest --> WorkerDisk --records--> WorkerLog --write, at the turn's end--> segment
//!                    |   ^  ^                   SyncJob, run elsewhere --> on_synced
//!                    |   |  '-- SnapshotDone <-- SnapshotStore, run elsewhere <-- SnapshotJob
//!                    |   '----- the time, once a turn
//!                    '-> DiskAnswer; groups of which a snapshot is due, or that somebody waits for (`save`)
//! ```
//!
//! What is written is kept when a process ends; what is synced is kept when the kernel does. `relaxed` answers what is written, and
//! syncs within [`SYNC_WINDOW`]; `strict` answers what is synced.
//!
//! Invariants:
//! 1. A request is answered when it, and all before it of its replica, are kept as the mode demands. A change of the members is
//!    synced in every mode (decision 0045), and so is that a log begins with data under a new name: where its power goes before that, its node
//!    says the former name, under which nobody is known any more once the new one was reported.
//!    A replica that has acknowledged without a log until now is answered at once until it has one: [`WorkerDisk::is_reached`] says
//!    when that is over, and nobody may rely on the mode before.
//! 2. No log of a replica counts before a snapshot of the state behind which it begins is kept. Nor does that of one that has acknowledged
//!    without a log before all that it was told at once stands in it; until then it is written under nobody's name.
//! 3. Who asked in another life of the replica is not answered.
//! 4. In `relaxed`, nothing is answered while something is to be synced and no sync has ended for two windows, or while there is more of
//!    it than [`UNSYNCED_BYTES_MAX`]; but for what was promised while that was not so.
//! 5. A snapshot is removed when a later one is kept, and the log is synced beyond that.
//! 6. While the next segment is not there, what replicas want kept leaves a part of the present one free. In that it is said that
//!    snapshots are there, and that replicas have ended: so a full disk gets room by itself, where it can.
//! 7. What was promised ([`WorkerDisk::promise`]) is answered as soon as it is written, and finds room.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::log::{NOBODY, PrepareJob, Prepared, ReplicaLog, SyncJob, Synced, WorkerLog};
use crate::snapshot_files::SnapshotFiles;
use crate::snapshot_name::SnapshotName;
use crate::snapshot_store::{SnapshotDone, SnapshotJob, SnapshotOwner, StoredSnapshot};
use consensus::{Index, LogEntry, Payload, Persist, SnapshotPoint};
use ids::{DurabilityMode, GroupId, Monotonic};
use mutations::Mutation;
use replica::{DiskAnswer, DiskRequest, LogBase, LogBegin};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long what is written in `relaxed` waits for a sync.
pub const SYNC_WINDOW: Duration = Duration::from_secs(1);

/// Bytes of the log after which there is a sync at once.
const SYNC_BYTES: u64 = 8 << 20;

/// Unsynced bytes above which nothing more is answered.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// Bytes of which it is promised, at a time, that they are acknowledged at once; and of a small segment that part.
const PROMISED_BYTES_MAX: u64 = 1 << 20;
const PROMISED_PART: u64 = 8;

/// Bytes that wait for room in the log, of a replica that is in use and gets one, and that it is told at once. What comes behind them is told
/// when it is written, where the next segment is on its way; where the disk is full the log begins anew. They go into the log in one
/// batch, which the segment behind the present one takes: no other has to be made in the worker's turn.
const IN_USE_BYTES_MAX: u64 = 48 << 20;

/// Segments that the log of a worker may fill before a snapshot is due, however small the states are: each of its groups has an equal
/// share of them. Fewer mean more snapshots, more mean longer starts.
const LOG_SEGMENTS_MIN: u64 = 3;

/// What is to become of a replica's log.
enum Stage {
    /// There is no state behind it: nobody relies on what it says.
    Empty,
    /// A snapshot of the state behind which it begins is not kept yet.
    Waits(Waiting),
    /// The same of a replica that is told at once what it wants kept, as it was before it had a log: see [`LogBase::InUse`]. What it
    /// writes while a snapshot of it is stored may be as much as it likes: so it goes into the log at once, under nobody's name.
    InUse(InUse),
    /// It stands in the log.
    Logged,
}

/// What goes into the log when the snapshot is kept.
struct Waiting {
    /// Where the log begins.
    log: Box<ReplicaLog>,
    /// The request that the beginning answers, if one does.
    number: Option<u64>,
    /// What came behind it.
    held: Vec<Persist>,
    /// Whether its replica has a name that stands on no disk yet.
    has_new_name: bool,
}

/// A log that has begun, until that is synced.
struct Begun {
    group: GroupId,
    /// The frame that it begins in, once that is written.
    frame: Option<u64>,
    /// Whether what its replica wants kept is answered then at the earliest, in every mode.
    is_bound: bool,
}

/// A log that does not count yet.
struct InUse {
    /// Where it begins.
    start: Index,
    /// A snapshot from there on that is kept. The log counts when nothing of it waits for room.
    base: Option<SnapshotPoint>,
    /// Bytes that do.
    held_bytes: u64,
}

/// A replica.
struct Kept {
    owner: SnapshotOwner,
    stage: Stage,
    /// The bytes of the state that was stored last.
    state_bytes: u64,
    /// Whether a snapshot is to be begun whatever its log has.
    is_wanted: bool,
}

/// A snapshot that was asked for.
#[derive(Clone, Copy)]
struct Storing {
    group: GroupId,
    life: u64,
    /// When it was asked for, or a piece of it was written.
    since: Monotonic,
}

/// Somebody waits until these replicas have snapshots.
struct Save {
    /// Under which he is told.
    number: u64,
    /// Of each group what its snapshot is to reflect, at least; those that have one are gone.
    left: BTreeMap<GroupId, Index>,
}

/// A sync that somebody waits for, whatever the mode.
struct ForcedSync {
    /// Under which he is told.
    number: u64,
    /// The last frame that is to be synced.
    frame: u64,
    /// The groups whose logs stand there.
    groups: Vec<GroupId>,
}

/// What was asked for by others than replicas.
#[derive(Default)]
struct Asked {
    syncs: Vec<ForcedSync>,
    /// The last snapshot, until it is kept or given up.
    storing: Option<Storing>,
    /// Those who wait for some.
    saves: Vec<Save>,
    /// Those whose waiting is over, and whether they have all.
    saved: Vec<(u64, bool)>,
}

impl Asked {
    /// Of this group nothing is waited for any more up to here.
    fn let_go(&mut self, group: GroupId, index: Index) {
        for save in &mut self.saves {
            if save.left.get(&group).is_some_and(|wanted| *wanted <= index) {
                save.left.remove(&group);
            }
        }
        self.end();
    }

    /// Those that wait for nothing more are told so.
    fn end(&mut self) {
        let ended = self.saves.extract_if(.., |save| save.left.is_empty());
        self.saved.extend(ended.map(|save| (save.number, true)));
    }

    /// Nothing came of a snapshot that some may wait for.
    fn fail(&mut self, group: GroupId) {
        let failed = self.saves.extract_if(.., |save| save.left.contains_key(&group));
        self.saved.extend(failed.map(|save| (save.number, false)));
    }
}

/// How long nothing was written by a log that rests.
const QUIET: Duration = Duration::from_millis(100);

/// How long nothing may come of a snapshot before another one is asked for: its replica may have stopped.
const STORING_STALL: Duration = Duration::from_secs(30);

/// A log to which nothing is written.
#[derive(Default)]
struct Rest {
    /// The last frame whose sync a later one, which is empty, is to say, or says.
    said: u64,
    /// Since when nothing was written.
    since: Monotonic,
}

/// What waits for room in the log.
enum HeldBack {
    Persist(SnapshotOwner, Persist),
    /// The same, of which its replica was told that it is kept.
    Told(SnapshotOwner, Persist),
    /// A log that begins behind a snapshot, of this place, that is there.
    Begin(SnapshotOwner, Index),
    /// One that begins and does not count yet.
    Uncounted(SnapshotOwner, Box<ReplicaLog>),
}

impl HeldBack {
    fn group(&self) -> GroupId {
        match self {
            HeldBack::Persist(owner, _)
            | HeldBack::Told(owner, _)
            | HeldBack::Begin(owner, _)
            | HeldBack::Uncounted(owner, _) => owner.group,
        }
    }

    /// Whether somebody waits for it.
    fn is_awaited(&self) -> bool {
        match self {
            HeldBack::Persist(..) | HeldBack::Begin(..) => true,
            HeldBack::Told(..) | HeldBack::Uncounted(..) => false,
        }
    }
}

/// What room there is for a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Room {
    /// The next segment can be made, as far as is known.
    Enough,
    /// It could not be made. The present one has room.
    Short,
    /// Nor has the present one for what is to be written: it waits.
    None,
}

/// How long after a segment or a snapshot found no room another one is tried.
const SHORT_AGAIN: Duration = Duration::from_secs(1);

/// About as many bytes as a record has beside the data of its entries.
const RECORD_BYTES: usize = 256;
const ENTRY_BYTES: usize = 32;

fn bytes_of(entries: &[LogEntry]) -> u64 {
    let bytes = |entry: &LogEntry| ENTRY_BYTES + entry.data().map_or(RECORD_BYTES, |data| data.len());
    (RECORD_BYTES + entries.iter().map(bytes).sum::<usize>()) as u64
}

/// A request that was not answered.
struct Pending {
    owner: SnapshotOwner,
    number: u64,
    /// The frame of the log that it ends with, once it is written.
    frame: Option<u64>,
    /// Whether it is to be synced, whatever the mode.
    is_bound: bool,
    /// Whether it was promised that it is answered when it is written.
    is_promised: bool,
}

/// Whether there is room for entries: where the next segment is ready there is, however many they are.
#[inline]
fn has_room<D: Disk + Clone>(log: &WorkerLog<D>, entries: &[LogEntry]) -> bool {
    log.has_ready() || log.has_room(bytes_of(entries))
}

/// See the file's header.
pub struct WorkerDisk<D: Disk> {
    mode: DurabilityMode,
    /// What was written when the mode was set: it may be acknowledged, in the mode before.
    answered: u64,
    log: WorkerLog<D>,
    replicas: BTreeMap<GroupId, Kept>,
    pending: VecDeque<Pending>,
    /// In order, behind the open batch.
    held: VecDeque<HeldBack>,
    /// When a segment is tried again.
    again_at: Monotonic,
    /// Until then no snapshot is asked for: one could not be stored.
    store_at: Monotonic,
    answers: Vec<(GroupId, u64, DiskAnswer)>,
    jobs: Vec<SnapshotJob>,
    files: SnapshotFiles,
    begun: Vec<Begun>,
    asked: Asked,
    /// Of so many bytes that are requested next it was promised that they are answered when they are written.
    promised: u64,
    /// Since when something is unsynced.
    unsynced_since: Option<Monotonic>,
    rest: Rest,
    now: Monotonic,
}

impl<D: Disk + Clone> WorkerDisk<D> {
    /// That of a worker whose log has just begun. `files` are the snapshots that are kept, of any group; of `unread` the states are still
    /// being read ([`WorkerDisk::on_state_read`]).
    pub fn new(
        mode: DurabilityMode,
        log: WorkerLog<D>,
        files: Vec<SnapshotName>,
        unread: BTreeSet<SnapshotName>,
    ) -> WorkerDisk<D> {
        WorkerDisk {
            mode,
            answered: 0,
            log,
            replicas: BTreeMap::new(),
            pending: VecDeque::new(),
            held: VecDeque::new(),
            again_at: Monotonic(0),
            store_at: Monotonic(0),
            answers: Vec::new(),
            jobs: Vec::new(),
            files: SnapshotFiles::new(files, unread),
            begun: Vec::new(),
            asked: Asked::default(),
            promised: 0,
            unsynced_since: None,
            rest: Rest::default(),
            now: Monotonic(0),
        }
    }

    /// The log, to look at.
    pub fn log(&self) -> &WorkerLog<D> {
        &self.log
    }

    /// Whether every answer waits for a sync.
    pub fn answers_what_is_synced(&self) -> bool {
        self.mode == DurabilityMode::Strict
    }

    /// It acknowledges by another mode at once. Who relies on a stronger one waits for [`WorkerDisk::is_reached`].
    ///
    /// # Panics
    /// If nothing is to be kept any more: then there is no disk.
    pub fn set_mode(&mut self, mode: DurabilityMode) {
        assert!(mode.writes(), "a log is kept, or there is none");
        self.mode = mode;
        self.answered = self.log.written();
        self.promised = 0;
        self.release();
    }

    /// Whether whatever was acknowledged is kept as the mode demands, also what was acknowledged before the mode was this one.
    pub fn is_reached(&self) -> bool {
        let is_strict = self.mode == DurabilityMode::Strict;
        // Behind what a log begins with stands what its replica was told at once.
        let begins = |frame: Option<u64>| frame.is_none_or(|frame| is_strict && frame > self.log.synced());
        let is_unwritten = self.begun.iter().any(|begun| begins(begun.frame));
        let is_kept = !is_strict || self.log.synced() >= self.answered;
        let waits = |kept: &Kept| matches!(kept.stage, Stage::Waits(_) | Stage::InUse(_));
        is_kept && !is_unwritten && !self.replicas.values().any(waits)
            || mutations::is(Mutation::ReachedTooSoon)
    }

    /// Whether a replica that has acknowledged without a log so far has none yet.
    pub fn has_in_use(&self) -> bool {
        let mut replicas = self.replicas.values();
        replicas.any(|kept| matches!(kept.stage, Stage::InUse(_)))
    }

    /// A replica in use to whose log nothing came: its snapshot could not be stored, or the disk is full, and no more is to be held of what
    /// is written meanwhile. It is to begin anew with the state that it has now.
    pub fn stalled_in_use(&self, now: Monotonic) -> Option<GroupId> {
        let is_stalled = |kept: &&Kept| match &kept.stage {
            Stage::InUse(in_use) => {
                let is_over = in_use.held_bytes > IN_USE_BYTES_MAX && self.log.is_short();
                is_over || kept.is_wanted && now >= self.store_at
            }
            Stage::Waits(_) | Stage::Empty | Stage::Logged => false,
        };
        self.replicas
            .values()
            .find(is_stalled)
            .map(|kept| kept.owner.group)
    }

    /// Takes a request of a replica, in this life of it.
    pub fn request(&mut self, group: GroupId, life: u64, request: DiskRequest) {
        if let DiskRequest::Begin(begin) = request {
            return self.begin(group, life, *begin);
        }
        let its = self.replicas.get(&group);
        let Some(owner) = its.map(|kept| kept.owner).filter(|owner| owner.life == life) else {
            return;
        };
        match request {
            DiskRequest::Begin(_) => unreachable!("it was looked at above"),
            DiskRequest::Persist(persist) => self.persist(owner, persist),
            DiskRequest::Chunk {
                snapshot,
                number,
                point,
                bytes,
            } => {
                if mutations::is(Mutation::SnapshotGoneEarly)
                    && let Some(names) = self.files.take(group)
                {
                    self.jobs.push(SnapshotJob::Remove { names });
                }
                self.jobs.push(SnapshotJob::Store {
                    owner,
                    snapshot,
                    number,
                    point: point.map(|point| *point),
                    bytes,
                });
            }
            DiskRequest::Received {
                from,
                transfer,
                number,
                bytes,
            } => self.jobs.push(SnapshotJob::Receive {
                owner,
                from,
                transfer,
                number,
                bytes,
            }),
            DiskRequest::GiveUp => self.give_up(owner),
            DiskRequest::End => self.end(owner),
        }
    }

    /// Snapshots of these groups are to be kept that reflect what stands beside them, or more. [`WorkerDisk::take_saved`] says when,
    /// under this number. A group whose replica here ends meanwhile is waited for no longer.
    pub fn save(&mut self, number: u64, wanted: impl IntoIterator<Item = (GroupId, Index)>) {
        let is_here = |(group, _): &(GroupId, Index)| {
            let stage = self.replicas.get(group).map(|kept| &kept.stage);
            stage.is_some_and(|stage| !matches!(stage, Stage::Empty))
        };
        let left = wanted.into_iter().filter(is_here).collect();
        self.asked.saves.push(Save { number, left });
        self.asked.end();
    }

    /// Those whose waiting is over since the last call, and whether all that they waited for is kept.
    pub fn take_saved(&mut self) -> Vec<(u64, bool)> {
        std::mem::take(&mut self.asked.saved)
    }

    /// All that is written is to be synced, whatever the mode: [`WorkerDisk::take_forced`] says when, under this number.
    pub fn force_sync(&mut self, number: u64) {
        let is_unwritten = |group| {
            let mut begun = self.begun.iter();
            begun.any(|begun| begun.group == group && begun.frame.is_none())
        };
        let groups = self.logged().map(|owner| owner.group);
        let groups = groups.filter(|group| !is_unwritten(*group)).collect();
        let frame = self.log.written();
        self.asked.syncs.push(ForcedSync {
            number,
            frame,
            groups,
        });
    }

    /// The syncs that have ended since the last call, with the groups whose logs stood in what was synced: what any of their replicas was
    /// told to be written when the sync was asked for is synced.
    pub fn take_forced(&mut self) -> Vec<(u64, Vec<GroupId>)> {
        let synced = self.log.synced();
        let ended = self.asked.syncs.extract_if(.., |sync| sync.frame <= synced);
        ended.map(|sync| (sync.number, sync.groups)).collect()
    }

    /// Whether somebody waits for snapshots.
    pub fn has_saves(&self) -> bool {
        !self.asked.saves.is_empty()
    }

    /// A replica begins. Whatever was here of its group belongs to another one, or to an earlier life.
    fn begin(&mut self, group: GroupId, life: u64, begin: LogBegin) {
        let its = self.replicas.get(&group).map(|kept| kept.owner.incarnation);
        let goes_on = begin.base == LogBase::InUse && its == Some(begin.incarnation);
        // Who waits for a snapshot of a replica whose log only begins anew waits on.
        if !goes_on {
            self.asked.let_go(group, Index(u64::MAX));
        }
        self.pending.retain(|pending| pending.owner.group != group);
        self.held.retain(|held| held.group() != group);
        self.begun.retain(|begun| begun.group != group);
        self.asked.storing.take_if(|storing| storing.group == group);
        let owner = SnapshotOwner {
            group,
            incarnation: begin.incarnation,
            generation: begin.generation,
            life,
        };
        let log = ReplicaLog {
            group,
            incarnation: begin.incarnation,
            generation: begin.generation,
            start: begin.start,
            hard: begin.saved.hard_state,
            entries: begin.saved.entries,
            floor: begin
                .saved
                .floor
                .filter(|_| !mutations::is(Mutation::FloorNotWritten)),
        };
        let (index, log) = (log.start.index, Box::new(log));
        let (stage, uncounted) = match (index, begin.base) {
            (Index(0), _) => (Stage::Empty, None),
            (start, LogBase::InUse) => {
                let (base, held_bytes) = (None, 0);
                let in_use = InUse {
                    start,
                    base,
                    held_bytes,
                };
                (Stage::InUse(in_use), Some(log))
            }
            (_, LogBase::New | LogBase::Stored) => {
                let waiting = Waiting {
                    log,
                    number: None,
                    held: Vec::new(),
                    has_new_name: begin.base == LogBase::New,
                };
                (Stage::Waits(waiting), None)
            }
        };
        let kept = Kept {
            owner,
            stage,
            state_bytes: 0,
            is_wanted: false,
        };
        self.replicas.insert(group, kept);
        if let Some(log) = uncounted {
            self.begin_uncounted(owner, log);
        } else if begin.base == LogBase::Stored || mutations::is(Mutation::BaseNotAwaited) {
            self.begin_log(owner, index);
        }
    }

    fn persist(&mut self, owner: SnapshotOwner, persist: Persist) {
        let kept = self
            .replicas
            .get_mut(&owner.group)
            .expect("the caller has found it");
        if let Some(point) = persist.start {
            // What is void waits for nothing.
            self.held.retain(|held| held.group() != owner.group);
            // The state that came may be of a place below what was in the log once.
            let floor = match &kept.stage {
                Stage::Empty => None,
                Stage::Waits(waiting) => waiting.log.floor,
                Stage::InUse(_) | Stage::Logged => self.log.floor(owner.group),
            };
            // What follows stands on the state that came, and waits for it.
            self.jobs.push(SnapshotJob::FinishReceived {
                owner,
                point: (*point).clone(),
            });
            let log = ReplicaLog {
                group: owner.group,
                incarnation: owner.incarnation,
                generation: owner.generation,
                start: *point,
                hard: persist.hard_state,
                entries: persist.entries,
                floor,
            };
            let index = log.start.index;
            kept.stage = Stage::Waits(Waiting {
                log: Box::new(log),
                number: Some(persist.number),
                held: Vec::new(),
                has_new_name: false,
            });
            if mutations::is(Mutation::ReceivedNotAwaited) {
                self.begin_log(owner, index);
            }
            return;
        }
        match &mut kept.stage {
            Stage::Empty => {
                let answer = DiskAnswer::Persisted(persist.number);
                self.answers.push((owner.group, owner.life, answer));
            }
            Stage::Waits(waiting) => waiting.held.push(persist),
            Stage::InUse(in_use) => {
                let has_room = self.held.is_empty() && has_room(&self.log, &persist.entries);
                let is_told = has_room || in_use.held_bytes <= IN_USE_BYTES_MAX || self.log.is_short();
                if is_told {
                    let answer = DiskAnswer::Persisted(persist.number);
                    self.answers.push((owner.group, owner.life, answer));
                }
                if has_room {
                    self.gather(owner, &persist);
                    return;
                }
                in_use.held_bytes += bytes_of(&persist.entries);
                self.held.push_back(match is_told {
                    true => HeldBack::Told(owner, persist),
                    false => HeldBack::Persist(owner, persist),
                });
            }
            Stage::Logged if self.held.is_empty() && has_room(&self.log, &persist.entries) => {
                self.append(owner, &persist);
            }
            Stage::Logged => {
                if mutations::is(Mutation::FullAcknowledged) {
                    let answer = DiskAnswer::Persisted(persist.number);
                    self.answers.push((owner.group, owner.life, answer));
                }
                self.held.push_back(HeldBack::Persist(owner, persist));
            }
        }
    }

    /// What has waited for room goes into the open batch, as far as there is some.
    fn go_on_with_held(&mut self) {
        while let Some(held) = self.held.pop_front() {
            match held {
                HeldBack::Persist(owner, persist) if has_room(&self.log, &persist.entries) => {
                    self.append(owner, &persist);
                    self.found_room(owner, bytes_of(&persist.entries));
                }
                HeldBack::Told(owner, persist) if has_room(&self.log, &persist.entries) => {
                    self.gather(owner, &persist);
                    self.found_room(owner, bytes_of(&persist.entries));
                }
                HeldBack::Uncounted(owner, log) if has_room(&self.log, &log.entries) => {
                    self.log.live(&log);
                    self.found_room(owner, bytes_of(&log.entries));
                }
                HeldBack::Begin(owner, index) if self.has_room_to_begin(owner.group) => {
                    self.begin_log_now(owner, index);
                }
                held @ (HeldBack::Persist(..)
                | HeldBack::Told(..)
                | HeldBack::Begin(..)
                | HeldBack::Uncounted(..)) => {
                    return self.held.push_front(held);
                }
            }
        }
    }

    /// A log begins that does not count: whatever stands there of its group is void.
    fn begin_uncounted(&mut self, owner: SnapshotOwner, mut log: Box<ReplicaLog>) {
        if self.log.has_log(owner.group) {
            self.log.end(owner.group);
        }
        if !mutations::is(Mutation::BaseNotAwaited) {
            log.incarnation = NOBODY;
        }
        if self.held.is_empty() && has_room(&self.log, &log.entries) {
            return self.log.live(&log);
        }
        let its = self.replicas.get_mut(&owner.group);
        if let Some(Stage::InUse(in_use)) = its.map(|kept| &mut kept.stage) {
            in_use.held_bytes += bytes_of(&log.entries);
        }
        self.held.push_back(HeldBack::Uncounted(owner, log));
    }

    /// What has waited for room stands in the log.
    fn found_room(&mut self, owner: SnapshotOwner, bytes: u64) {
        let its = self.replicas.get_mut(&owner.group);
        if let Some(Stage::InUse(in_use)) = its.map(|kept| &mut kept.stage) {
            in_use.held_bytes -= bytes;
            self.count(owner);
        }
    }

    /// A log counts from here on, if its snapshot is kept and nothing of it waits for room.
    fn count(&mut self, owner: SnapshotOwner) {
        let Some(kept) = self.replicas.get_mut(&owner.group) else {
            return;
        };
        let Stage::InUse(InUse {
            base: Some(point),
            held_bytes: 0,
            ..
        }) = &kept.stage
        else {
            return;
        };
        self.log.count(owner.group, owner.incarnation, point);
        (kept.stage, kept.is_wanted) = (Stage::Logged, false);
        self.begun.push(Begun {
            group: owner.group,
            frame: None,
            is_bound: false,
        });
    }

    fn has_room_to_begin(&self, group: GroupId) -> bool {
        let stage = self.replicas.get(&group).map(|kept| &kept.stage);
        let Some(Stage::Waits(waiting)) = stage else {
            return true;
        };
        let held = waiting.held.iter().map(|persist| bytes_of(&persist.entries));
        self.log.has_ready()
            || self
                .log
                .has_room(bytes_of(&waiting.log.entries) + held.sum::<u64>())
    }

    /// What room there is.
    pub fn room(&self) -> Room {
        let is_awaited = || self.held.iter().any(HeldBack::is_awaited);
        match self.log.is_short() {
            false => Room::Enough,
            true if is_awaited() => Room::None,
            true => Room::Short,
        }
    }

    /// Puts it into the open batch. Whether that was promised.
    fn gather(&mut self, owner: SnapshotOwner, persist: &Persist) -> bool {
        let mut hard = persist.hard_state;
        if mutations::is(Mutation::VoteNotKept) {
            hard.vote = None;
        }
        self.log.append(owner.group, &persist.entries, hard);
        let bytes = bytes_of(&persist.entries);
        let is_promised = bytes <= self.promised;
        self.promised -= if is_promised { bytes } else { 0 };
        is_promised
    }

    fn append(&mut self, owner: SnapshotOwner, persist: &Persist) {
        let is_promised = self.gather(owner, persist);
        let changes_members = |entry: &LogEntry| matches!(entry.payload, Payload::Members(_));
        let synced = self.log.synced();
        let is_unsynced = |begun: &Begun| {
            begun.group == owner.group && begun.is_bound && begun.frame.is_none_or(|frame| frame > synced)
        };
        self.pending.push_back(Pending {
            owner,
            number: persist.number,
            frame: None,
            is_bound: persist.entries.iter().any(changes_members) || self.begun.iter().any(is_unsynced),
            is_promised,
        });
    }

    /// A snapshot is kept: a log that has waited for it begins, as soon as there is room.
    fn begin_log(&mut self, owner: SnapshotOwner, index: Index) {
        match self.held.is_empty() && self.has_room_to_begin(owner.group) {
            true => self.begin_log_now(owner, index),
            false => self.held.push_back(HeldBack::Begin(owner, index)),
        }
    }

    fn begin_log_now(&mut self, owner: SnapshotOwner, index: Index) {
        let Some(kept) = self.replicas.get_mut(&owner.group) else {
            return;
        };
        let Stage::Waits(waiting) = &kept.stage else {
            return;
        };
        if waiting.log.start.index > index {
            return;
        }
        let before = std::mem::replace(&mut kept.stage, Stage::Logged);
        kept.is_wanted = false;
        let Stage::Waits(waiting) = before else {
            unreachable!("it was looked at above");
        };
        self.log.live(&waiting.log);
        self.begun.push(Begun {
            group: owner.group,
            frame: None,
            is_bound: waiting.has_new_name && !mutations::is(Mutation::NameNotSynced),
        });
        if let Some(number) = waiting.number {
            self.pending.push_back(Pending {
                owner,
                number,
                frame: None,
                is_bound: false,
                is_promised: false,
            });
        }
        for persist in &waiting.held {
            self.append(owner, persist);
        }
    }

    fn give_up(&mut self, owner: SnapshotOwner) {
        self.stop_storing(owner);
        self.jobs.push(SnapshotJob::GiveUp { group: owner.group });
    }

    /// Nothing more comes of the snapshot that was asked for, if it is of this replica.
    fn stop_storing(&mut self, owner: SnapshotOwner) {
        self.asked
            .storing
            .take_if(|storing| (storing.group, storing.life) == (owner.group, owner.life));
    }

    /// A replica has ended: nothing of it is needed.
    fn end(&mut self, owner: SnapshotOwner) {
        self.give_up(owner);
        self.asked.let_go(owner.group, Index(u64::MAX));
        self.replicas.remove(&owner.group);
        self.pending.retain(|pending| pending.owner.group != owner.group);
        self.held.retain(|held| held.group() != owner.group);
        self.begun.retain(|begun| begun.group != owner.group);
        self.log.end(owner.group);
        self.files.end(owner.group);
    }

    /// Of how many bytes of entries it is promised that they find room when they are requested and written next, with nothing else, and are
    /// answered then. None in modes that answer later, and while something waits or is not synced for long.
    pub fn promise(&mut self, now: Monotonic) -> u64 {
        self.now = self.now.max(now);
        let bytes = PROMISED_BYTES_MAX.min(self.log.segment_bytes() / PROMISED_PART);
        let is_short_of_syncs = self.is_held_back() || self.log.unsynced_bytes() + bytes > UNSYNCED_BYTES_MAX;
        let may = self.mode == DurabilityMode::Relaxed
            && self.held.is_empty()
            && self.pending.is_empty()
            && !self.log.has_batch()
            && (self.log.has_ready() || self.log.has_room(bytes))
            && !is_short_of_syncs;
        self.promised = if may { bytes } else { 0 };
        self.promised
    }

    /// Whether there is anything to be written.
    pub fn has_batch(&self) -> bool {
        self.log.has_batch()
    }

    /// The turn ends: what was requested is written, or a part of it if it is long.
    ///
    /// # Errors
    /// What the disk answers. [`StorageError::Full`]: nothing is lost, and it may be called again. All others are final.
    pub fn write(&mut self, now: Monotonic) -> Result<(), StorageError> {
        self.now = self.now.max(now);
        if !self.held.is_empty() {
            self.go_on_with_held();
        }
        if self.log.has_batch() {
            self.write_some()?;
        }
        self.release();
        Ok(())
    }

    fn write_some(&mut self) -> Result<(), StorageError> {
        if !self.log.is_writing() {
            self.close()?;
        }
        self.rest.since = self.now;
        self.unsynced_since.get_or_insert(self.now);
        let (is_strict, closed) = (self.mode == DurabilityMode::Strict, self.log.closed());
        let begins = is_strict && self.begun.iter().any(|begun| begun.frame == Some(closed));
        let is_promised = |pending: &Pending| pending.is_promised && pending.frame == Some(closed);
        match begins || self.pending.iter().any(is_promised) {
            true => self.log.write_rest()?,
            false => self.log.write_part()?,
        }
        if begins {
            // What a log begins with counts as kept from here on, also to who reads it back after a loss of power.
            while let Some(job) = self.log.sync_job() {
                let synced = job.run()?;
                self.log.on_synced(synced);
            }
        }
        Ok(())
    }

    /// What was gathered is to be written: from now on it is known where it will end.
    fn close(&mut self) -> Result<(), StorageError> {
        let frame = self.log.close()?;
        self.promised = 0;
        let new = self.pending.iter_mut().filter(|pending| pending.frame.is_none());
        new.for_each(|pending| pending.frame = Some(frame));
        for begun in &mut self.begun {
            begun.frame.get_or_insert(frame);
        }
        self.files.close(frame);
        Ok(())
    }

    /// Whether what was gathered is written in part, so that [`WorkerDisk::write`] is to be called again without waiting for anything.
    pub fn goes_on(&self) -> bool {
        self.log.goes_on()
    }

    /// Whether answers wait although what they are about is written (invariant 4).
    fn is_held_back(&self) -> bool {
        let is_late = self
            .unsynced_since
            .is_some_and(|since| self.now.since(since) >= SYNC_WINDOW * 2);
        is_late || self.log.unsynced_bytes() > UNSYNCED_BYTES_MAX
    }

    /// Answers what is kept.
    fn release(&mut self) {
        let written = match mutations::is(Mutation::PartIsWhole) {
            true => self.log.closed(),
            false => self.log.written(),
        };
        let synced = self.log.synced();
        if written <= synced {
            self.unsynced_since = None;
        }
        let is_held_back = self.is_held_back();
        let is_kept = |pending: &Pending| {
            let Some(frame) = pending.frame else {
                return false;
            };
            let waits = pending.is_bound || is_held_back && !pending.is_promised;
            match self.mode {
                DurabilityMode::Memory | DurabilityMode::Relaxed => {
                    frame <= written && !waits || frame <= synced
                }
                DurabilityMode::Strict => frame <= synced || mutations::is(Mutation::AnsweredBeforeSynced),
            }
        };
        let mut waiting: BTreeSet<GroupId> = BTreeSet::new();
        let answers = &mut self.answers;
        self.pending.retain(|pending| {
            let group = pending.owner.group;
            if waiting.contains(&group) || !is_kept(pending) {
                waiting.insert(group);
                return true;
            }
            answers.push((group, pending.owner.life, DiskAnswer::Persisted(pending.number)));
            false
        });
        while let Some(names) = self.files.next_removed(synced) {
            if !names.is_empty() {
                self.jobs.push(SnapshotJob::Remove { names });
            }
        }
    }

    /// What replicas are to be told, in order: group, life, answer.
    pub fn take_answers(&mut self) -> Vec<(GroupId, u64, DiskAnswer)> {
        std::mem::take(&mut self.answers)
    }

    /// The sync that is due, to be run anywhere; [`WorkerDisk::on_synced`] hears of it. One at a time.
    pub fn sync_job(&mut self, now: Monotonic) -> Option<SyncJob<D::File>> {
        self.now = self.now.max(now);
        let since = self.unsynced_since?;
        let is_bound = || self.pending.iter().any(|pending| pending.is_bound);
        let is_due = self.mode == DurabilityMode::Strict
            || self.now.since(since) >= SYNC_WINDOW
            || self.log.unsynced_bytes() >= SYNC_BYTES
            || !self.asked.syncs.is_empty()
            || is_bound();
        is_due.then(|| self.log.sync_job()).flatten()
    }

    /// When the next sync is due, if there is something to be synced.
    pub fn sync_at(&self) -> Option<Monotonic> {
        let since = self.unsynced_since?;
        Some(match self.mode {
            DurabilityMode::Strict => since,
            DurabilityMode::Memory | DurabilityMode::Relaxed => since.after(SYNC_WINDOW),
        })
    }

    /// A sync has ended.
    pub fn on_synced(&mut self, synced: Synced<D::File>, now: Monotonic) {
        self.now = self.now.max(now);
        self.log.on_synced(synced);
        // What was written since waits for the next one.
        self.unsynced_since = (self.log.written() > self.log.synced()).then_some(self.now);
        self.release();
    }

    /// The segment that is to be made ahead, if one is, to be run anywhere; [`WorkerDisk::on_prepared`] hears of it.
    pub fn prepare_job(&mut self, now: Monotonic) -> Option<PrepareJob<D>> {
        self.now = self.now.max(now);
        let may_try = !self.log.is_short() || self.log.has_leftovers() || self.now >= self.again_at;
        may_try.then(|| self.log.prepare_job()).flatten()
    }

    /// A segment was made, or could not be.
    ///
    /// # Errors
    /// [`StorageError::Full`]: it is tried again. All others are final.
    pub fn on_prepared(&mut self, prepared: Prepared<D::File>) -> Result<(), StorageError> {
        self.again_at = self.now.after(SHORT_AGAIN);
        self.log.on_prepared(prepared)
    }

    /// Ten times a second: what a log that rests wrote last is said to be synced, once, so that damage of it would be seen.
    ///
    /// # Errors
    /// As [`WorkerDisk::write`].
    pub fn rest(&mut self, now: Monotonic) -> Result<(), StorageError> {
        self.now = self.now.max(now);
        let written = self.log.written();
        let is_at_rest = !self.log.has_batch() && written == self.log.synced();
        let has_room = self.log.has_ready() || self.log.has_room(0);
        let is_said = written == self.rest.said;
        if !is_at_rest || is_said || !has_room || self.now.since(self.rest.since) < QUIET {
            return Ok(());
        }
        self.rest.said = self.log.write()?;
        self.unsynced_since.get_or_insert(self.now);
        Ok(())
    }

    /// What is to be done with snapshots, in order, to be run anywhere; [`WorkerDisk::on_snapshot`] hears of it.
    pub fn take_jobs(&mut self) -> Vec<SnapshotJob> {
        std::mem::take(&mut self.jobs)
    }

    /// A job for snapshots has ended.
    pub fn on_snapshot(&mut self, done: SnapshotDone) {
        let (owner, kept) = match &done {
            SnapshotDone::Stored { owner, kept, .. } | SnapshotDone::Finished { owner, kept } => {
                (*owner, kept.clone())
            }
            SnapshotDone::NotStored { owner, .. } | SnapshotDone::Received { owner, .. } => (*owner, None),
        };
        let is_its = |kept: &Kept| kept.owner == owner;
        if !self.replicas.get(&owner.group).is_some_and(is_its) {
            // The replica is another one by now, or another life of this one, of which a snapshot may come by the same name.
            let name = kept.map(|kept| kept.name);
            let now = self.replicas.get(&owner.group).map(|kept| kept.owner);
            let is_same = now.is_some_and(|now| {
                (now.incarnation, now.generation) == (owner.incarnation, owner.generation)
            });
            match name {
                Some(name) if is_same => self.files.add(name),
                Some(name) => self.jobs.push(SnapshotJob::Remove { names: vec![name] }),
                None => {}
            }
            return;
        }
        let is_kept = kept.is_some();
        if let Some(kept) = kept {
            self.on_kept(owner, kept);
        }
        let now = self.now;
        if let Some(storing) = self
            .asked
            .storing
            .as_mut()
            .filter(|storing| storing.group == owner.group)
        {
            storing.since = now;
        }
        let answer = match done {
            SnapshotDone::Stored { snapshot, number, .. } => DiskAnswer::Taken { snapshot, number },
            SnapshotDone::NotStored { snapshot, .. } => {
                self.store_at = self.now.after(SHORT_AGAIN);
                self.give_up_waiting(owner);
                self.asked.fail(owner.group);
                DiskAnswer::Failed { snapshot }
            }
            SnapshotDone::Received {
                from,
                transfer,
                number,
                ..
            } => DiskAnswer::Received {
                from,
                transfer,
                number,
            },
            SnapshotDone::Finished { .. } => {
                if !is_kept {
                    self.want(owner);
                }
                return;
            }
        };
        self.answers.push((owner.group, owner.life, answer));
    }

    /// A snapshot is kept.
    fn on_kept(&mut self, owner: SnapshotOwner, snapshot: StoredSnapshot) {
        let StoredSnapshot { name, point, bytes } = snapshot;
        self.stop_storing(owner);
        if let Some(kept) = self.replicas.get_mut(&owner.group) {
            kept.state_bytes = bytes;
        }
        self.asked.let_go(owner.group, name.index);
        let its = self.replicas.get_mut(&owner.group);
        if let Some(Stage::InUse(in_use)) = its.map(|kept| &mut kept.stage) {
            // One of the life before says nothing of what this log begins with.
            if in_use.start <= name.index {
                in_use.base = Some(point);
            }
            self.count(owner);
        } else {
            self.begin_log(owner, name.index);
            self.log.on_snapshot(owner.group, &point);
        }
        // What was written up to here is synced first: the log goes on from the new one then.
        let frame = match self.log.has_batch() {
            true => u64::MAX,
            false => self.log.written(),
        };
        self.files.replace(name, frame);
    }

    /// The state of a group was read from the snapshot that a former start left.
    pub fn on_state_read(&mut self, group: GroupId) {
        if let Some(name) = self.files.on_read(group) {
            self.jobs.push(SnapshotJob::Remove { names: vec![name] });
        }
    }

    fn give_up_waiting(&mut self, owner: SnapshotOwner) {
        self.stop_storing(owner);
        let waits = |kept: &&mut Kept| matches!(kept.stage, Stage::Waits(_) | Stage::InUse(_));
        if let Some(kept) = self.replicas.get_mut(&owner.group).filter(waits) {
            kept.is_wanted = true;
        }
    }

    /// A replica needs a snapshot of the state here, whatever becomes of others.
    fn want(&mut self, owner: SnapshotOwner) {
        if let Some(kept) = self.replicas.get_mut(&owner.group) {
            kept.is_wanted = true;
        }
    }

    /// The group of which a snapshot is to be stored next, if one is due and none that was asked for is under way.
    pub fn next_snapshot(&mut self, now: Monotonic) -> Option<GroupId> {
        self.now = self.now.max(now);
        let now = self.now;
        let is_stalled = |storing: &mut Storing| now.since(storing.since) >= STORING_STALL;
        if let Some(stalled) = self.asked.storing.take_if(is_stalled) {
            self.asked.fail(stalled.group);
        }
        if self.asked.storing.is_some() || now < self.store_at {
            return None;
        }
        let wanted = self.replicas.values().find(|kept| kept.is_wanted);
        let awaited = self.asked.saves.iter().find_map(|save| save.left.keys().next());
        let group = match (wanted, awaited) {
            (Some(kept), _) => kept.owner.group,
            (None, Some(group)) => *group,
            (None, None) => self.pinning().or_else(|| self.longest())?,
        };
        let kept = self.replicas.get_mut(&group)?;
        kept.is_wanted = false;
        self.asked.storing = Some(Storing {
            group,
            life: kept.owner.life,
            since: now,
        });
        Some(group)
    }

    /// Whether a snapshot that was asked for is on its way.
    pub fn is_storing(&self) -> bool {
        self.asked.storing.is_some()
    }

    /// The replicas whose logs stand in the log.
    pub fn logged(&self) -> impl Iterator<Item = SnapshotOwner> {
        let logged = self.replicas.values();
        let logged = logged.filter(|kept| matches!(kept.stage, Stage::Logged));
        logged.map(|kept| kept.owner)
    }

    /// Since when something is unsynced, or no sync has ended while something was.
    pub fn unsynced_since(&self) -> Option<Monotonic> {
        self.unsynced_since
    }

    /// How many bytes the log of a group may have before a snapshot of it is due.
    fn allowed(&self, kept: &Kept) -> u64 {
        let share = LOG_SEGMENTS_MIN * self.log.segment_bytes() / self.replicas.len() as u64;
        kept.state_bytes.max(share)
    }

    /// The group whose log is longest beside its state, of those where it is longer.
    fn longest(&self) -> Option<GroupId> {
        let logged = self.replicas.values();
        let logged = logged.filter(|kept| matches!(kept.stage, Stage::Logged));
        let surplus = |kept: &Kept| {
            let bytes = self.log.bytes_of(kept.owner.group);
            bytes.checked_sub(self.allowed(kept))
        };
        let all = logged.filter_map(|kept| Some((surplus(kept)?, kept.owner.group)));
        all.max().map(|(_, group)| group)
    }

    /// The group that keeps the oldest segment, where the log as a whole is longer than it would be if all groups had as much of it as they
    /// may have: one to which nothing is written keeps what others have filled.
    fn pinning(&self) -> Option<GroupId> {
        let allowed = self.replicas.values().map(|kept| self.allowed(kept)).sum::<u64>();
        let is_long = self.log.full_bytes() > allowed + self.log.segment_bytes();
        // Where no other segment can be made, any that goes is one to go on with.
        let pinning = match self.log.is_short() {
            true => self.log.pinning(1),
            false => is_long.then(|| self.log.pinning(2)).flatten(),
        };
        // One whose log does not count yet is being stored.
        let is_logged = |group: &GroupId| {
            let kept = self.replicas.get(group);
            kept.is_some_and(|kept| !matches!(kept.stage, Stage::InUse(_)))
        };
        pinning.filter(is_logged)
    }

    /// The groups whose logs have begun and are synced, since the last call: what an earlier start left of them is not needed
    /// any more.
    pub fn take_begun(&mut self) -> Vec<GroupId> {
        let synced = self.log.synced();
        let begun = self
            .begun
            .extract_if(.., |begun| begun.frame.is_some_and(|frame| frame <= synced));
        begun.map(|begun| begun.group).collect()
    }

    /// Ends: everything is written and synced.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn finish(&mut self, now: Monotonic) -> Result<(), StorageError> {
        let written = loop {
            let written = self.write(now);
            if written.is_err() || !self.log.has_batch() {
                break written;
            }
        };
        // What finds no room was told to nobody; what is written is synced all the same.
        if !matches!(written, Ok(()) | Err(StorageError::Full { .. })) {
            return written;
        }
        while let Some(job) = self.log.sync_job() {
            let synced = job.run()?;
            self.on_synced(synced, now);
        }
        written
    }

    /// Nothing is to be kept any more. The saves and the syncs that somebody waits for, by their numbers: nothing comes of them.
    pub fn give_up_all(self) -> (Vec<u64>, Vec<u64>) {
        let saves = self.asked.saves.iter().map(|save| save.number);
        let syncs = self.asked.syncs.iter().map(|sync| sync.number);
        (saves.collect(), syncs.collect())
    }

    /// Says which invariant does not hold, of those that can be seen between two calls.
    pub fn check(&self) -> Result<(), String> {
        let is_its = |pending: &&Pending| {
            self.replicas
                .get(&pending.owner.group)
                .is_some_and(|kept| kept.owner == pending.owner)
        };
        if !self.pending.iter().all(|pending| is_its(&pending)) {
            return Err("invariant 3: a former life of a replica is to be answered".to_owned());
        }
        let is_early = |pending: &Pending| pending.frame.is_some_and(|frame| frame > self.log.closed());
        if self.pending.iter().any(is_early) {
            return Err("invariant 1: what is not written counts as written".to_owned());
        }
        let waits_for_nothing =
            |save: &Save| save.left.keys().any(|group| !self.replicas.contains_key(group));
        match self.asked.saves.iter().any(waits_for_nothing) {
            true => Err("a snapshot of a replica is waited for that is not here".to_owned()),
            false => Ok(()),
        }
    }
}

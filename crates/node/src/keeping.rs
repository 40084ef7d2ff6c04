//! How the node keeps what it acknowledges, and how that changes while it runs: the map says another durability.
//!
//! The steps, and their order, are `storage/mode_change.rs`.
//!
//! The thread of the meta group looks after it; workers take their disks from here, and say how far they are. What the disk has to do with it
//! is done beside: other nodes hear of that thread every now and then, and would take one that waits for a slow disk for one that is gone.

use crate::disk::Disk;
use crate::kept::{Confirmed, NewLogs};
use crate::mailboxes::Mailboxes;
use crate::side_task::SideTask;
use gateway::Shared;
use ids::{ClusterId, DurabilityMode, Groups, NodeId, Token};
use options::DurabilityChoice;
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::{DirectoryDisk, ModeChange, ModeStep, RunMark};

/// After what the disk refused it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What workers and the thread of the meta group have for each other.
pub(crate) struct WorkerModes(Vec<WorkerMode>);

struct WorkerMode {
    /// For a worker that had none, and with which change.
    disk: Mutex<Option<(u64, Disk)>>,
    /// One more than the number of the change that it has followed last: all that it has acknowledged is kept as that says.
    followed: AtomicU64,
}

impl WorkerModes {
    pub(crate) fn new(workers: usize) -> WorkerModes {
        let one = |_| WorkerMode {
            disk: Mutex::default(),
            followed: AtomicU64::new(0),
        };
        WorkerModes((0..workers).map(one).collect())
    }

    /// The disk of a worker that is to keep something from this change on.
    pub(crate) fn take_disk(&self, worker: u16, change: u64) -> Option<Disk> {
        let mut slot = self.0[usize::from(worker)].slot();
        let disk = slot.take_if(|(number, _)| *number == change);
        disk.map(|(_, disk)| disk)
    }

    /// All that a worker has acknowledged is kept as this change says.
    pub(crate) fn follow(&self, worker: u16, change: u64) {
        self.0[usize::from(worker)]
            .followed
            .store(change + 1, Ordering::Release);
    }

    fn have_all(&self, change: u64) -> bool {
        let mut all = self.0.iter();
        all.all(|one| one.followed.load(Ordering::Acquire) == change + 1)
    }
}

impl WorkerMode {
    fn slot(&self) -> MutexGuard<'_, Option<(u64, Disk)>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose directory it is.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) token: Token,
    pub(crate) groups: Groups,
}

/// A step on its way, and what it is for.
#[derive(Clone, Copy)]
enum Doing {
    /// Workers are shown this mode when it is done.
    Before(DurabilityMode, ModeStep),
    /// All workers have followed.
    After,
}

/// How far it is.
struct Progress {
    change: ModeChange,
    /// When the disk refused something.
    tried: Option<Instant>,
    side_task: SideTask<Doing>,
}

/// What steps are carried out with.
#[derive(Clone)]
struct Tools {
    disk: DirectoryDisk,
    owner: Owner,
    modes: Arc<WorkerModes>,
    mailboxes: Arc<Mailboxes>,
}

/// See the file's header.
pub(crate) struct Keeping {
    tools: Tools,
    pub(crate) modes: Arc<WorkerModes>,
    shared: Arc<Shared>,
    progress: Mutex<Progress>,
}

impl Keeping {
    pub(crate) fn new(
        disk: DirectoryDisk,
        owner: Owner,
        mode: DurabilityMode,
        mailboxes: Arc<Mailboxes>,
        shared: Arc<Shared>,
    ) -> Keeping {
        let modes = Arc::new(WorkerModes::new(usize::from(mailboxes.workers())));
        Keeping {
            modes: modes.clone(),
            tools: Tools {
                disk,
                owner,
                modes,
                mailboxes,
            },
            shared,
            progress: Mutex::new(Progress {
                change: ModeChange::new(mode),
                tried: None,
                side_task: SideTask::none(),
            }),
        }
    }

    /// The map says this mode. The one that workers may be shown, and the number of the change: another one than before if that can be
    /// followed now.
    pub(crate) fn follow(&self, wanted: DurabilityMode) -> (DurabilityMode, u64) {
        let mut progress = self.heard();
        let (shown, number) = (progress.change.shown(), progress.change.number());
        if progress.side_task.is_busy() {
            return (shown, number);
        }
        let is_time = |_: &ModeStep| {
            // What is taken back need not have been followed.
            progress.may_try() && (progress.change.is_under_way() || self.modes.have_all(number))
        };
        let Some(step) = progress.change.before(wanted).filter(is_time) else {
            if shown == wanted && !progress.change.is_under_way() {
                progress.tried = None;
            }
            return (shown, number);
        };
        self.begin(&mut progress, Doing::Before(wanted, step), step, number + 1);
        (progress.change.shown(), progress.change.number())
    }

    /// Looks whether all workers have followed. Whether that is still to come.
    pub(crate) fn look(&self) -> bool {
        let mut progress = self.heard();
        let number = progress.change.number();
        let is_time = progress.may_try() && !progress.side_task.is_busy() && self.modes.have_all(number);
        if progress.change.is_under_way() && is_time {
            let step = progress.change.after();
            self.begin(&mut progress, Doing::After, step, number);
        }
        progress.change.is_under_way()
    }

    /// Whether the next start finds on disk whatever this one has acknowledged, as the loop ends: a step that is on its way is waited for,
    /// since it may say in the mark what is to become of the data.
    pub(crate) fn keeps_all(&self) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = progress.side_task.wait();
        self.on_ended(&mut progress, ended);
        progress.change.keeps_all()
    }

    /// How far it is, a step that has ended included.
    fn heard(&self) -> MutexGuard<'_, Progress> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = progress.side_task.take_ended();
        self.on_ended(&mut progress, ended);
        progress
    }

    /// Carries a step out beside, or at once if there is nothing to be done.
    fn begin(&self, progress: &mut Progress, doing: Doing, step: ModeStep, number: u64) {
        if step == ModeStep::Nothing {
            return self.on_ended(progress, Some((doing, Ok(()))));
        }
        let tools = self.tools.clone();
        let begun = progress
            .side_task
            .begin(doing, move || tools.carry_out(step, number));
        if let Err(error) = begun {
            progress.refused(&error);
        }
    }

    /// A step has ended.
    fn on_ended(&self, progress: &mut Progress, ended: Option<(Doing, io::Result<()>)>) {
        let from = progress.change.shown().name();
        match ended {
            None => {}
            Some((_, Err(error))) => progress.refused(&error),
            Some((Doing::Before(wanted, step), Ok(()))) => {
                progress.tried = None;
                progress.change.show(wanted, step);
                tracing::info!(from, to = wanted.name(), "durability changes");
            }
            Some((Doing::After, Ok(()))) => {
                progress.change.end();
                progress.tried = None;
                self.shared.take_durability(choice_of(progress.change.shown()));
                tracing::info!(durability = from, "all that this node acknowledges is kept so");
                let mailboxes = &self.tools.mailboxes;
                (0..mailboxes.workers()).for_each(|worker| mailboxes.wake(worker));
            }
        }
    }
}

impl Tools {
    fn carry_out(&self, step: ModeStep, number: u64) -> io::Result<()> {
        match step {
            ModeStep::Nothing => Ok(()),
            ModeStep::Mark(mode) => {
                RunMark::set_durability(&self.disk, mode.code()).map_err(io::Error::other)
            }
            ModeStep::Open(mode) => self.open_logs(mode, number).inspect_err(|_| {
                // The mark may say what has not begun.
                if let Err(error) = crate::kept::keep_nothing(&self.disk) {
                    tracing::error!(%error, "the mark of this run says more than is kept");
                }
            }),
            ModeStep::Remove => {
                // Those that no worker has taken.
                self.modes.0.iter().for_each(|one| drop(one.slot().take()));
                storage::remove_replicas(&self.disk).map_err(io::Error::other)
            }
        }
    }

    /// Opens the log of each worker, which takes it when it follows the layout.
    fn open_logs(&self, mode: DurabilityMode, number: u64) -> io::Result<()> {
        let Owner {
            cluster,
            node,
            token,
            groups,
        } = self.owner;
        let logs = NewLogs {
            disk: self.disk.clone(),
            mode,
            cluster,
            node,
            token,
            groups,
            kept: Confirmed::default(),
            founded: Vec::new(),
        };
        let disks = logs.begin(self.mailboxes.workers(), &self.mailboxes)?;
        for (slot, disk) in self.modes.0.iter().zip(disks) {
            *slot.slot() = Some((number, disk));
        }
        Ok(())
    }
}

impl Progress {
    fn may_try(&self) -> bool {
        self.tried.is_none_or(|tried| tried.elapsed() >= AGAIN)
    }

    fn refused(&mut self, error: &impl Display) {
        if self.tried.is_none() {
            tracing::error!(%error, "the durability that was ordered cannot be had yet: it is tried again every second");
        }
        self.tried = Some(Instant::now());
    }
}

fn choice_of(mode: DurabilityMode) -> DurabilityChoice {
    match mode {
        DurabilityMode::Memory => DurabilityChoice::Memory,
        DurabilityMode::Relaxed => DurabilityChoice::Relaxed,
        DurabilityMode::Strict => DurabilityChoice::Strict,
    }
}

//! How the node keeps what it acknowledges, and how that changes while it runs: the map says another durability.
//!
//! The steps, and their order, are `storage/mode_change.rs`.
//!
//! The thread of the meta group looks after it; workers take their disks from here, and say how far they are.

use crate::disk::Disk;
use crate::kept::{Confirmed, NewLogs};
use crate::mailboxes::Mailboxes;
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

/// How far it is.
struct Progress {
    change: ModeChange,
    /// When the disk refused something.
    tried: Option<Instant>,
}

/// See the file's header.
pub(crate) struct Keeping {
    disk: DirectoryDisk,
    owner: Owner,
    pub(crate) modes: Arc<WorkerModes>,
    mailboxes: Arc<Mailboxes>,
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
        Keeping {
            disk,
            owner,
            modes: Arc::new(WorkerModes::new(usize::from(mailboxes.workers()))),
            mailboxes,
            shared,
            progress: Mutex::new(Progress {
                change: ModeChange::new(mode),
                tried: None,
            }),
        }
    }

    /// The map says this mode. The one that workers may be shown, and the number of the change: another one than before if that can be
    /// followed now.
    pub(crate) fn follow(&self, wanted: DurabilityMode) -> (DurabilityMode, u64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (shown, number) = (progress.change.shown(), progress.change.number());
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
        match self.carry_out(step, number + 1) {
            Ok(()) => {
                progress.tried = None;
                progress.change.show(wanted, step);
                tracing::info!(from = shown.name(), to = wanted.name(), "durability changes");
            }
            Err(error) => {
                progress.refused(&error);
                // The mark may say what has not begun.
                if let ModeStep::Open(_) = step
                    && let Err(error) = crate::kept::keep_nothing(&self.disk)
                {
                    tracing::error!(%error, "the mark of this run says more than is kept");
                }
            }
        }
        (progress.change.shown(), progress.change.number())
    }

    /// Looks whether all workers have followed. Whether that is still to come.
    pub(crate) fn look(&self) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.change.is_under_way() {
            return false;
        }
        let shown = progress.change.shown();
        let number = progress.change.number();
        if !progress.may_try() || !self.modes.have_all(number) {
            return true;
        }
        if let Err(error) = self.carry_out(progress.change.after(), number) {
            progress.refused(&error);
            return true;
        }
        progress.change.end();
        progress.tried = None;
        self.shared.take_durability(choice_of(shown));
        tracing::info!(
            durability = shown.name(),
            "all that this node acknowledges is kept so"
        );
        (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
        false
    }

    /// Whether the next start finds on disk whatever this one has acknowledged, as the loop ends.
    pub(crate) fn keeps_all(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.change.keeps_all()
    }

    fn carry_out(&self, step: ModeStep, number: u64) -> io::Result<()> {
        match step {
            ModeStep::Nothing => Ok(()),
            ModeStep::Mark(mode) => {
                RunMark::set_durability(&self.disk, mode.code()).map_err(io::Error::other)
            }
            ModeStep::Open(mode) => self.open_logs(mode, number),
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

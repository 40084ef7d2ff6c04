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
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use storage::{DirectoryDisk, ModeChange, ModeStep, RunMark};

/// After what the disk refused it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What workers and the thread of the meta group have for each other.
pub(crate) struct WorkerModes(Vec<WorkerMode>);

struct WorkerMode {
    /// For a worker that had none.
    disk: Mutex<Option<Disk>>,
    /// The code of the mode in which all is kept that it has acknowledged.
    reached: AtomicU8,
}

impl WorkerModes {
    /// None has followed anything yet.
    pub(crate) fn new(workers: usize) -> WorkerModes {
        let one = |_| WorkerMode {
            disk: Mutex::default(),
            reached: AtomicU8::new(u8::MAX),
        };
        WorkerModes((0..workers).map(one).collect())
    }

    /// The disk of a worker that is to keep something from here on.
    pub(crate) fn take_disk(&self, worker: u16) -> Option<Disk> {
        let slot = &self.0[usize::from(worker)].disk;
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// All that a worker has acknowledged is kept in this mode.
    pub(crate) fn reach(&self, worker: u16, mode: DurabilityMode) {
        self.0[usize::from(worker)]
            .reached
            .store(mode.code(), Ordering::Release);
    }

    fn have_all(&self, mode: DurabilityMode) -> bool {
        let mut all = self.0.iter();
        all.all(|one| one.reached.load(Ordering::Acquire) == mode.code())
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

    /// The map says this mode. The one that workers may be shown: another one than before if that can be followed now.
    pub(crate) fn follow(&self, wanted: DurabilityMode) -> DurabilityMode {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = progress.change.shown();
        let is_time = |_: &ModeStep| progress.may_try() && self.modes.have_all(shown);
        let Some(step) = progress.change.before(wanted).filter(is_time) else {
            return shown;
        };
        match self.carry_out(step) {
            Ok(()) => {
                progress.tried = None;
                progress.change.show(wanted, step);
                tracing::info!(from = shown.name(), to = wanted.name(), "durability changes");
            }
            Err(error) => progress.refused(&error),
        }
        progress.change.shown()
    }

    /// Looks whether all workers have followed. Whether that is still to come.
    pub(crate) fn look(&self) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.change.is_under_way() {
            return false;
        }
        let shown = progress.change.shown();
        if !progress.may_try() || !self.modes.have_all(shown) {
            return true;
        }
        if let Err(error) = self.carry_out(progress.change.after()) {
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

    fn carry_out(&self, step: ModeStep) -> io::Result<()> {
        match step {
            ModeStep::Nothing => Ok(()),
            ModeStep::Mark(mode) => {
                RunMark::set_durability(&self.disk, mode.code()).map_err(io::Error::other)
            }
            ModeStep::Open(mode) => self.open_logs(mode),
            ModeStep::Remove => storage::remove_replicas(&self.disk).map_err(io::Error::other),
        }
    }

    /// Opens the log of each worker, which takes it when it follows the layout.
    fn open_logs(&self, mode: DurabilityMode) -> io::Result<()> {
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
            *slot.disk.lock().unwrap_or_else(PoisonError::into_inner) = Some(disk);
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

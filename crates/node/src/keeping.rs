//! How the node keeps what it acknowledges, and how that changes while it runs: the map says another durability.
//!
//! ```text
//!   weaker:      the mark of the run says it --> workers follow the layout --> files go, if nothing is kept any more
//!   stronger:    logs are opened, if there were none --> workers follow the layout --> each says when all that it has acknowledged is
//!                kept so --> the mark of the run says it --> the node says it
//! ```
//!
//! What the next start may believe stands in the mark, so it never says more than is true: not while a worker still acknowledges less, nor
//! while something is not synced that was acknowledged before.
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
use storage::{DirectoryDisk, RunMark};

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
    pub(crate) fn new(workers: usize, mode: DurabilityMode) -> WorkerModes {
        let one = |_| WorkerMode {
            disk: Mutex::default(),
            reached: AtomicU8::new(mode.code()),
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
    /// What the workers' layouts say.
    shown: DurabilityMode,
    /// What the mark of the run says, where it says anything.
    marked: DurabilityMode,
    /// What the node says of itself: all that it has acknowledged is kept so.
    told: DurabilityMode,
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
            modes: Arc::new(WorkerModes::new(usize::from(mailboxes.workers()), mode)),
            mailboxes,
            shared,
            progress: Mutex::new(Progress {
                shown: mode,
                marked: mode,
                told: mode,
                tried: None,
            }),
        }
    }

    /// The map says this mode. The one that workers may be shown: another one than before if that can be followed now.
    pub(crate) fn follow(&self, wanted: DurabilityMode) -> DurabilityMode {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = &mut *progress;
        // One change after the other: what workers say they have reached would not tell which of two it is about.
        let is_under_way = progress.shown != progress.told;
        if progress.shown == wanted || is_under_way || !progress.may_try() {
            return progress.shown;
        }
        let done = match (progress.shown.writes(), wanted.code() < progress.shown.code()) {
            (false, _) => self.open_logs(wanted).map(|()| progress.marked = wanted),
            (true, true) => self.mark(progress, wanted),
            (true, false) => Ok(()),
        };
        match done {
            Ok(()) => {
                progress.tried = None;
                tracing::info!(
                    from = progress.shown.name(),
                    to = wanted.name(),
                    "durability changes"
                );
                progress.shown = wanted;
            }
            Err(error) => progress.refused(&error),
        }
        progress.shown
    }

    /// Looks whether all workers have followed. Whether that is still to come.
    pub(crate) fn look(&self) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = &mut *progress;
        let shown = progress.shown;
        if shown == progress.told || !progress.may_try() {
            return shown != progress.told;
        }
        if !self.modes.have_all(shown) {
            return true;
        }
        let done = match (shown.writes(), shown == progress.marked) {
            (false, _) => storage::remove_replicas(&self.disk).map_err(io::Error::other),
            (true, false) => self.mark(progress, shown),
            (true, true) => Ok(()),
        };
        if let Err(error) = done {
            progress.refused(&error);
            return true;
        }
        (progress.told, progress.tried) = (shown, None);
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
        progress.shown.writes() && progress.told.writes()
    }

    /// Nothing on disk counts for the next start: it is handed over to.
    pub(crate) fn keep_nothing(&self) -> io::Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match progress.marked.writes() {
            true => self.mark(&mut progress, DurabilityMode::Memory),
            false => Ok(()),
        }
    }

    fn mark(&self, progress: &mut Progress, mode: DurabilityMode) -> io::Result<()> {
        RunMark::set_durability(&self.disk, mode.code()).map_err(io::Error::other)?;
        progress.marked = mode;
        Ok(())
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

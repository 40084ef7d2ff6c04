//! What a node still reads of what it kept, while it serves clients already: how far that is, and which groups nobody can serve meanwhile.
//!
//! ```text
//!   snapshots --threads beside--> states --> seats      the worker of each group: nobody is known to lead it --> absent
//!                     `--> progress --> INFO            commands over absent groups: -LOADING
//! ```
//!
//! A group that is led elsewhere is served as ever. One whose replica here waits for its state, and of which nobody is known to lead, is *absent*.

use ids::{GroupId, Groups, UnixMillis};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a node is with what it reads. Shared by its workers.
pub struct Loading {
    /// Of each group that there can be: written by the worker that has it, read by all.
    absent: Box<[AtomicBool]>,
    absent_count: AtomicUsize,
    progress: Mutex<Option<LoadProgress>>,
}

/// So much of so much is read.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LoadProgress {
    /// When it began.
    pub since: UnixMillis,
    /// Bytes of snapshots that were read.
    pub done_bytes: u64,
    /// Bytes of all that are to be read; 0 if that is not known yet.
    pub of_bytes: u64,
}

impl LoadProgress {
    /// Writes the fields that `INFO` has of it, as Redis names them: clients ask again when it says that this may be over.
    pub fn write(&self, now: UnixMillis, text: &mut String) {
        let LoadProgress {
            since,
            done_bytes: done,
            of_bytes: of,
        } = *self;
        let part = if of == 0 { 0.0 } else { done as f64 / of as f64 };
        let passed = now.0.saturating_sub(since.0).max(0) as f64 / 1_000.0;
        let left = if done == 0 {
            1.0
        } else {
            passed * (1.0 - part) / part
        };
        let _ = write!(
            text,
            "loading_start_time:{}\r\nloading_total_bytes:{of}\r\nloading_loaded_bytes:{done}\r\nloading_loaded_perc:{:.2}\r\n\
             loading_eta_seconds:{}\r\n",
            since.0 / 1_000,
            part * 100.0,
            (left.ceil() as u64).max(1)
        );
    }
}

impl Loading {
    pub(crate) fn new(groups: Groups) -> Loading {
        Loading {
            absent: groups.most().iter().map(|_| AtomicBool::new(false)).collect(),
            absent_count: AtomicUsize::new(0),
            progress: Mutex::default(),
        }
    }

    /// Whether nobody can serve this group because its state is still being read.
    pub(crate) fn is_absent(&self, group: GroupId) -> bool {
        self.absent[group.index()].load(Ordering::Relaxed)
    }

    /// Whether there is such a group.
    pub fn has_absent(&self) -> bool {
        self.absent_count.load(Ordering::Relaxed) > 0
    }

    /// Only the worker that has the group says so.
    pub(crate) fn set_absent(&self, group: GroupId, is_absent: bool) {
        let was_absent = self.absent[group.index()].swap(is_absent, Ordering::Relaxed);
        match (was_absent, is_absent) {
            (false, true) => drop(self.absent_count.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.absent_count.fetch_sub(1, Ordering::Relaxed)),
            (true, true) | (false, false) => {}
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<LoadProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is; none if nothing is being read.
    pub fn progress(&self) -> Option<LoadProgress> {
        *self.slot()
    }

    /// It is so far; none: all is read.
    pub fn set_progress(&self, progress: Option<LoadProgress>) {
        *self.slot() = progress;
    }
}

//! Which threads go first where there are fewer cores than there is to do.
//!
//! Clients wait for workers, and workers for syncs. Nobody waits for a snapshot or a backup in the same way: they take what is left of the cores,
//! and a part of them where nothing is, so that they end.

/// What a thread does that steps back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BesideWork {
    /// Snapshots, which let the log go: it is to be trimmed while clients write as fast as they can.
    Snapshots,
    /// Backups, and parts of them.
    Backups,
}

impl BesideWork {
    /// As `nice` counts: beside a thread that never waits, 5 has a quarter of a core, and 10 a tenth.
    fn nice(self) -> libc::c_int {
        match self {
            BesideWork::Snapshots => 5,
            BesideWork::Backups => 10,
        }
    }
}

/// The thread that calls this, and those that it begins, let others go first. If the system refuses, they do not.
pub fn step_back(work: BesideWork) {
    // On Linux this is of the calling thread alone; elsewhere, where it is of the process, workers do without.
    if cfg!(target_os = "linux") {
        // SAFETY: it takes numbers, and changes nothing of this process but in which order its threads run.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, work.nice()) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn nice() -> libc::c_int {
        // SAFETY: as above.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn a_thread_steps_back_and_no_other_does() {
        let before = nice();
        let there = std::thread::spawn(|| {
            step_back(BesideWork::Backups);
            nice()
        });
        let there = there.join().expect("the thread does not panic");
        assert_eq!(there, before.max(BesideWork::Backups.nice()));
        assert_eq!(nice(), before);
    }
}

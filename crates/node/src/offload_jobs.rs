//! The thread that runs offload jobs: commands that would hold a worker up.
//!
//! One thread for the node. Offload jobs wait in its queue in the order in which they came; each client has a bounded number
//! of commands under way, and each worker of evaluations, so the queue is bounded. Results lie in a queue for each worker, and
//! the worker is woken for each.

use crate::mailboxes::Mailboxes;
use crossbeam_queue::SegQueue;
use gateway::OffloadJob;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A panic on this thread ends the node at once: the values that it held are lost, and their keys would be locked for
/// ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a command failed on the thread for offload jobs");
            std::process::abort();
        }
    }
}

/// Where workers leave offload jobs and fetch them when they are done.
#[derive(Clone)]
pub(crate) struct OffloadJobs {
    todo: Sender<(u16, OffloadJob)>,
    done: Arc<[SegQueue<OffloadJob>]>,
}

impl OffloadJobs {
    /// Starts the thread. It ends when the last worker has.
    pub(crate) fn start(mailboxes: Arc<Mailboxes>) -> std::io::Result<OffloadJobs> {
        let (todo, waiting) = channel::<(u16, OffloadJob)>();
        let done: Arc<[SegQueue<OffloadJob>]> = (0..mailboxes.workers()).map(|_| SegQueue::new()).collect();
        let finished = done.clone();
        std::thread::Builder::new()
            .name("offload".to_owned())
            .spawn(move || {
                let _guard = AbortOnPanic;
                for (worker, mut offload_job) in waiting {
                    offload_job.run();
                    finished[usize::from(worker)].push(offload_job);
                    mailboxes.wake(worker);
                }
            })?;
        Ok(OffloadJobs { todo, done })
    }

    /// Leaves an offload job of `worker`.
    pub(crate) fn leave(&self, worker: u16, offload_job: OffloadJob) {
        if self.todo.send((worker, offload_job)).is_err() {
            // The thread ended by a panic, which is in the log; the values it held are lost, and so is the node.
            tracing::error!(worker, "nobody runs offload jobs any more");
            std::process::abort();
        }
    }

    /// Fetches an offload job of `worker` that is done.
    #[inline]
    pub(crate) fn fetch(&self, worker: u16) -> Option<OffloadJob> {
        self.done[usize::from(worker)].pop()
    }
}

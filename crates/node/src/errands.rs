//! The thread that runs errands: commands that would hold a worker up.
//!
//! One thread for the node. Errands wait in its queue in the order in which they came; each client has a bounded number of
//! commands under way, and each worker of evaluations, so the queue is bounded. Results lie in a queue for each worker, and the worker is
//! woken for each.

use crate::mesh::Mesh;
use crossbeam_queue::SegQueue;
use server::Errand;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A panic on this thread ends the node at once: the values that it held are lost, and their keys would be locked for
/// ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a command failed on the thread for errands");
            std::process::abort();
        }
    }
}

/// Where workers leave errands and fetch them when they are done.
#[derive(Clone)]
pub(crate) struct Errands {
    todo: Sender<(u16, Errand)>,
    done: Arc<[SegQueue<Errand>]>,
}

impl Errands {
    /// Starts the thread. It ends when the last worker has.
    pub(crate) fn start(mesh: Arc<Mesh>) -> std::io::Result<Errands> {
        let (todo, waiting) = channel::<(u16, Errand)>();
        let done: Arc<[SegQueue<Errand>]> = (0..mesh.workers()).map(|_| SegQueue::new()).collect();
        let finished = done.clone();
        std::thread::Builder::new()
            .name("errands".to_owned())
            .spawn(move || {
                let _guard = AbortOnPanic;
                for (worker, mut errand) in waiting {
                    errand.run();
                    finished[usize::from(worker)].push(errand);
                    mesh.wake(worker);
                }
            })?;
        Ok(Errands { todo, done })
    }

    /// Leaves an errand of `worker`.
    pub(crate) fn leave(&self, worker: u16, errand: Errand) {
        if self.todo.send((worker, errand)).is_err() {
            // The thread ended by a panic, which is in the log; the values it held are lost, and so is the node.
            tracing::error!(worker, "nobody runs errands any more");
            std::process::abort();
        }
    }

    /// Fetches an errand of `worker` that is done.
    #[inline]
    pub(crate) fn fetch(&self, worker: u16) -> Option<Errand> {
        self.done[usize::from(worker)].pop()
    }
}

//! Reads the states that replicas go on with, largest first, while the node serves clients already.
//!
//! ```text
//!   kept.rs: logs are read, snapshots looked at --> the cluster confirms what counts --> workers begin
//!                                          these threads: snapshot --> state --mailboxes--> worker --> seat
//! ```
//!
//! A group that is led elsewhere is served meanwhile; one that nobody leads answers `-LOADING` until its state is there. Each file was looked
//! at before the cluster heard of what is in it. If one cannot be read all the same, the process ends, and its next start does without.

use crate::clock;
use crate::mailboxes::{Mailboxes, ReadState};
use gateway::{LoadProgress, Shared};
use ids::{ClusterId, GroupId, NodeId};
use keyspace::Keyspace;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::{DirectoryDisk, SnapshotName, StoredReplica};

/// Between two words to an operator who waits.
const PROGRESS: Duration = Duration::from_secs(3);

/// Where the state of a group is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StoredState {
    /// Of the file.
    pub(crate) bytes: u64,
    pub(crate) group: GroupId,
    pub(crate) snapshot: SnapshotName,
}

/// States of a directory that are to be read.
pub(crate) struct StateReads {
    pub(crate) disk: DirectoryDisk,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) states: Vec<StoredState>,
}

/// What the threads share.
struct ReaderThreads {
    reads: StateReads,
    left: Mutex<Left>,
    began: Instant,
    mailboxes: Arc<Mailboxes>,
    shared: Arc<Shared>,
}

struct Left {
    /// The largest last.
    states: Vec<StoredState>,
    progress: LoadProgress,
    done: usize,
    told: Instant,
    tell_ready: Option<Box<dyn FnOnce() + Send>>,
}

impl StateReads {
    fn read(&self, state: &StoredState) -> Keyspace {
        let read = StoredReplica::read_state(&self.disk, self.cluster, self.node, &state.snapshot);
        read.unwrap_or_else(|error| self.fail(state.group, &error))
    }

    /// The cluster counts on what is not there.
    fn fail(&self, group: GroupId, error: &str) -> ! {
        tracing::error!(
            group = group.number(),
            error,
            directory = %self.disk.path().display(),
            "a snapshot that was whole cannot be read: the node ends, and its next start takes part as one that may have lost what it had"
        );
        if let Err(error) = storage::set_failed(&self.disk) {
            tracing::error!(%error, "and the mark of this run cannot be removed");
        }
        std::process::exit(1)
    }

    /// Reads all of them before anything else is done: what is on disk goes.
    pub(crate) fn read_all(self) -> BTreeMap<GroupId, Keyspace> {
        let read = |state: &StoredState| (state.group, self.read(state));
        self.states.iter().map(read).collect()
    }

    /// Says that they are to be read, before there are workers that could be asked.
    pub(crate) fn announce(&self, shared: &Shared) {
        let progress = LoadProgress {
            since: clock::now(),
            done_bytes: 0,
            of_bytes: self.states.iter().map(|state| state.bytes).sum(),
        };
        let is_any = !self.states.is_empty();
        shared.loading.set_progress(is_any.then_some(progress));
    }

    /// Reads them beside the workers, which are given each as soon as it is there; `tell_ready` is called when all are.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn begin(
        mut self,
        mailboxes: &Arc<Mailboxes>,
        shared: &Arc<Shared>,
        tell_ready: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut states = std::mem::take(&mut self.states);
        states.sort_unstable();
        let progress = shared.loading.progress().unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(states.len());
        let began = Instant::now();
        let reading = Arc::new(ReaderThreads {
            reads: self,
            left: Mutex::new(Left {
                states,
                progress,
                done: 0,
                told: began,
                tell_ready: Some(Box::new(tell_ready)),
            }),
            began,
            mailboxes: mailboxes.clone(),
            shared: shared.clone(),
        });
        for number in 0..threads {
            let reading = reading.clone();
            let thread = std::thread::Builder::new().name(format!("read-{number}"));
            thread.spawn(move || reading.run())?;
        }
        Ok(())
    }
}

impl ReaderThreads {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.shared.is_stopping.load(Ordering::Relaxed)
    }

    /// Reads one after the other, until none is left or the node stops: what was not read stays where it is.
    fn run(self: &Arc<Self>) {
        while !self.is_stopping() {
            let next = self.left().states.pop();
            let Some(state) = next else { return };
            let keyspace = self.reads.read(&state);
            let (workers, groups) = (self.mailboxes.workers(), self.shared.groups);
            let worker = groups.worker_of(state.group, workers);
            let reading = self.clone();
            let read = ReadState {
                group: state.group,
                keyspace: Box::new(keyspace),
                // Whoever hears that the node is ready is served at once.
                when_taken: Box::new(move || reading.note(state.bytes)),
            };
            self.mailboxes.hand_state(worker, read);
        }
    }

    /// A worker has taken a state of so many bytes.
    fn note(&self, bytes: u64) {
        let mut left = self.left();
        left.done += 1;
        left.progress.done_bytes += bytes;
        let is_over = left.progress.done_bytes == left.progress.of_bytes;
        self.shared.loading.set_progress(Some(left.progress));
        if is_over {
            self.shared.loading.set_progress(None);
            let (groups, millis) = (left.done, self.began.elapsed().as_millis() as u64);
            tracing::info!(groups, millis, "read what was kept on disk");
            if let Some(tell_ready) = left.tell_ready.take() {
                tell_ready();
            }
        } else if left.told.elapsed() >= PROGRESS {
            left.told = Instant::now();
            let groups = format!("{} of {}", left.done, left.done + left.states.len());
            tracing::info!(groups, "reading what was kept");
        }
    }
}

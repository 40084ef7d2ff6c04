//! Jobs on backups that this node does: one at a time, asked for through its admin port, or because one was due.
//!
//! ```text
//!  admin port --begin--> a thread: BackupJob::run --how far it is--> JobView <--page-- admin port
//!  schedule, on its own thread ----'    '--reaches all nodes as a client does, this one too
//! ```
//!
//! 1. While a job runs no other begins: the slot is taken before the thread starts, and given back by its end, also by a panic.
//! 2. A job outlives whoever has asked for it, and ends with the node: then it is told to stop, and is not waited for.
//!
//! Absent: a queue of jobs, and any trace of them after the process has ended, but for the log.

use crate::backup_members::backup_members;
use crate::directory_check::refuse_data_directory;
use crate::priority::{BesideWork, step_back};
use admin::ClusterView;
use backup::{
    BackupError, BackupJob, BackupTarget, JobContext, JobEnd, JobOrder, JobReport, JobView, JobsPage,
    RunProgress, open_of_node,
};
use gateway::Shared;
use ids::UnixMillis;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Jobs that are over and still shown: whoever asks every now and then finds his among them.
const SHOWN_MAX: usize = 4;

/// Sentences of a job that are shown. The oldest go first.
const SAID_MAX: usize = 64;

/// The host under which the node reaches its own port for clients, if that names none.
const OWN_HOST: &str = "127.0.0.1";

/// Shows the cluster as this node sees it.
pub(crate) type Look = Arc<dyn Fn() -> ClusterView + Send + Sync>;

/// Whether a job is still to go on.
pub(crate) type IsWanted = Box<dyn Fn() -> bool + Send + Sync>;

/// See the file's header.
pub(crate) struct BackupJobs {
    shared: Arc<Shared>,
    look: Look,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    running: Option<Arc<RunningJob>>,
    /// The newest last.
    over: VecDeque<JobView>,
    last_number: u64,
}

/// The job that has the slot.
struct RunningJob {
    shared: Arc<Shared>,
    stop: AtomicBool,
    is_wanted: IsWanted,
    view: Mutex<JobView>,
}

/// Gives the slot back.
struct Slot<'a> {
    jobs: &'a BackupJobs,
    job: Arc<RunningJob>,
    takes: bool,
    end: Option<JobEnd>,
}

impl BackupJobs {
    pub(crate) fn new(shared: Arc<Shared>, look: Look) -> Arc<BackupJobs> {
        Arc::new(BackupJobs {
            shared,
            look,
            jobs: Mutex::default(),
        })
    }

    /// Does what the admin port was sent: the number of the job.
    pub(crate) fn on_order(self: &Arc<Self>, order: JobOrder) -> Result<u64, String> {
        match order {
            JobOrder::Stop { number } => {
                if let Some(running) = held(&self.jobs).running.as_ref() {
                    let is_meant = held(&running.view).number == number;
                    running.stop.fetch_or(is_meant, Ordering::Relaxed);
                }
                Ok(number)
            }
            JobOrder::Begin { directory, job } => {
                let what = job.in_words(&format!("node:{directory}"));
                let running = self.take_slot(what, Box::new(|| true))?;
                let number = held(&running.view).number;
                let (jobs, of_thread) = (Arc::clone(self), Arc::clone(&running));
                let started = std::thread::Builder::new()
                    .name("backup-job".to_owned())
                    .spawn(move || {
                        step_back(BesideWork::Backups);
                        let open = || match job.only_reads() {
                            true => open_of_node(&directory),
                            false => refuse_data_directory(Path::new(&directory))
                                .and_then(|()| open_of_node(&directory)),
                        };
                        let _ = jobs.run(&of_thread, &job, open);
                    });
                started.map(|_| number).map_err(|error| {
                    let why = format!("no thread can be started for it: {error}");
                    self.give_back(&running, JobEnd::Failed(why.clone()));
                    why
                })
            }
        }
    }

    /// Whether the slot is taken.
    pub(crate) fn is_busy(&self) -> bool {
        held(&self.jobs).running.is_some()
    }

    /// Does a job on the thread of the caller, for as long as it is wanted; `None` if the slot is taken.
    pub(crate) fn run_here(
        &self,
        job: &BackupJob,
        target: &str,
        is_wanted: IsWanted,
        open: impl FnOnce() -> Result<Box<dyn BackupTarget>, BackupError>,
    ) -> Option<Result<JobReport, String>> {
        let running = self.take_slot(job.in_words(target), is_wanted).ok()?;
        Some(self.run(&running, job, open))
    }

    /// The page that shows them.
    pub(crate) fn page(&self) -> JobsPage {
        let jobs = held(&self.jobs);
        let running = jobs.running.iter().map(|running| held(&running.view).clone());
        JobsPage {
            jobs: jobs.over.iter().cloned().chain(running).collect(),
        }
    }

    /// Takes the slot for a job.
    fn take_slot(&self, what: String, is_wanted: IsWanted) -> Result<Arc<RunningJob>, String> {
        let mut jobs = held(&self.jobs);
        if let Some(running) = &jobs.running {
            return Err(format!(
                "this node is at another job, a {}: one at a time; wait for its end",
                held(&running.view).what
            ));
        }
        // Unlike those of earlier starts, unless there was more than one a millisecond.
        let now = crate::clock::now().0.max(0) as u64;
        jobs.last_number = now.max(jobs.last_number + 1);
        tracing::info!(job = jobs.last_number, "{what} begins");
        let running = Arc::new(RunningJob {
            shared: self.shared.clone(),
            stop: AtomicBool::new(false),
            is_wanted,
            view: Mutex::new(JobView {
                number: jobs.last_number,
                what,
                ..JobView::default()
            }),
        });
        jobs.running = Some(running.clone());
        Ok(running)
    }

    /// Does a job that has the slot, and gives it back.
    fn run(
        &self,
        running: &Arc<RunningJob>,
        job: &BackupJob,
        open: impl FnOnce() -> Result<Box<dyn BackupTarget>, BackupError>,
    ) -> Result<JobReport, String> {
        let mut slot = Slot {
            jobs: self,
            job: Arc::clone(running),
            takes: matches!(job, BackupJob::Take { .. }),
            end: None,
        };
        let members = || Ok(backup_members(&(self.look)(), OWN_HOST));
        let password = self.shared.settings().requirepass.clone();
        if slot.takes {
            self.shared.backups.begin();
        }
        let done = open().and_then(|target| {
            job.run(&JobContext {
                target: &*target,
                members: &members,
                password: password.as_deref(),
                progress: &**running,
                stop: &running.stop,
            })
        });
        let done = done.map_err(|error| error.to_string());
        slot.end = Some(match &done {
            Ok(report) => JobEnd::Done(report.clone()),
            Err(why) => JobEnd::Failed(why.clone()),
        });
        done
    }

    fn give_back(&self, running: &RunningJob, end: JobEnd) {
        let mut view = held(&running.view).clone();
        let (job, what) = (view.number, &view.what);
        match &end {
            JobEnd::Done(report) if report.damages.is_empty() => {
                tracing::info!(job, "{what} is over: {}", report.text.trim_end());
            }
            JobEnd::Done(report) => {
                tracing::warn!(job, first = report.damages[0], "{what} has found damage");
            }
            JobEnd::Failed(why) => tracing::warn!(job, "{what} came to nothing: {why}"),
        }
        view.end = Some(end);
        let mut jobs = held(&self.jobs);
        jobs.running = None;
        jobs.over.push_back(view);
        let too_many = jobs.over.len().saturating_sub(SHOWN_MAX);
        jobs.over.drain(..too_many);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let end = self.end.take();
        let end = end.unwrap_or_else(|| JobEnd::Failed("it ended by a panic: see the node's log".to_owned()));
        if self.takes {
            let made = match &end {
                JobEnd::Done(report) => Ok(UnixMillis(report.made.unwrap_or(0) as i64)),
                JobEnd::Failed(why) => Err(why.as_str()),
            };
            self.jobs.shared.backups.end(crate::clock::now(), made);
        }
        self.jobs.give_back(&self.job, end);
    }
}

impl RunProgress for RunningJob {
    fn say(&self, sentence: &str) {
        let mut view = held(&self.view);
        tracing::info!(job = view.number, "{sentence}");
        view.said.push(sentence.to_owned());
        let too_many = view.said.len().saturating_sub(SAID_MAX);
        view.said.drain(..too_many);
        view.said_before += too_many as u64;
    }

    fn at(&self, what: &str, done: u64, all: u64) {
        if self.shared.is_stopping.load(Ordering::Relaxed) || !(self.is_wanted)() {
            self.stop.store(true, Ordering::Relaxed);
        }
        let mut view = held(&self.view);
        if view.step != what {
            what.clone_into(&mut view.step);
        }
        (view.done, view.all) = (done, all);
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The thread that has the cluster take backups by itself, on whichever node leads the meta group.
//!
//! ```text
//!  settings --a plan--> BackupPlanner <--the newest-- target            (looked at when this node begins to lead, and before each backup)
//!                            |
//!                            '--is due--> BackupJobs: the one slot of this node
//! ```
//!
//! What was done already stands in the target, so that a node that begins to lead needs to hear nothing of the one before. If the lead
//! changes while a backup is taken, whoever had it stops: nodes keep one backup at a time.

use crate::backup_jobs::BackupJobs;
use crate::clock;
use crate::directory_check::refuse_data_directory;
use crate::priority::{BesideWork, step_back};
use crate::view::View;
use backup::{BackupError, BackupJob, BackupPlanner, BackupTarget, RETRY_PAUSE, TargetPlace, backups};
use gateway::Shared;
use ids::{NodeId, UnixMillis};
use options::{CronSchedule, Settings};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it looks. Schedules count in minutes.
const TICK: Duration = Duration::from_millis(500);

/// See the file's header.
pub(crate) struct BackupSchedule {
    shared: Arc<Shared>,
    view: Arc<View>,
    me: NodeId,
    jobs: Arc<BackupJobs>,
    plan: Option<Plan>,
}

/// What the settings ask for.
struct Plan {
    schedule: CronSchedule,
    target: String,
    planner: BackupPlanner,
    /// When the target is looked at though nothing is due: in Unix milliseconds.
    look_at: u64,
}

impl BackupSchedule {
    /// Starts the thread. It ends when the node stops.
    pub(crate) fn start(
        shared: Arc<Shared>,
        view: Arc<View>,
        me: NodeId,
        jobs: Arc<BackupJobs>,
    ) -> io::Result<()> {
        let mut schedule = BackupSchedule {
            shared,
            view,
            me,
            jobs,
            plan: None,
        };
        let thread = std::thread::Builder::new().name("schedule".to_owned());
        let run = move || {
            step_back(BesideWork::Backups);
            while !schedule.shared.is_stopping.load(Ordering::Relaxed) {
                schedule.turn();
                std::thread::sleep(TICK);
            }
        };
        thread.spawn(run).map(drop)
    }

    fn turn(&mut self) {
        let settings = self.shared.settings();
        self.heed(&settings);
        let leads = leader(&self.view) == Some(self.me);
        let next = match &mut self.plan {
            Some(plan) if leads => {
                if now() >= plan.look_at {
                    look(plan, &self.view, &self.shared);
                }
                if plan.planner.is_due(now()) {
                    self.take(&settings);
                }
                self.plan.as_ref().and_then(|plan| plan.planner.next(now()))
            }
            Some(plan) => {
                plan.look_at = 0;
                None
            }
            None => None,
        };
        let next = next.and_then(|next| i64::try_from(next).ok()).map(UnixMillis);
        self.shared.backups.set_next(next);
    }

    /// Follows the settings.
    fn heed(&mut self, settings: &Settings) {
        let (Some(schedule), Some(target)) = (&settings.backup_schedule, &settings.backup_target) else {
            self.plan = None;
            return;
        };
        let is_same = |plan: &Plan| plan.schedule == *schedule && plan.target == *target;
        if !self.plan.as_ref().is_some_and(is_same) {
            self.plan = Some(Plan {
                schedule: schedule.clone(),
                target: target.clone(),
                planner: BackupPlanner::new(schedule.clone(), now()),
                look_at: 0,
            });
        }
    }

    /// Takes a backup, unless another node has meanwhile, or this one is at another job: then it is due in the next turn too.
    fn take(&mut self, settings: &Settings) {
        let Some(plan) = &mut self.plan else { return };
        if self.jobs.is_busy() || !look(plan, &self.view, &self.shared) || !plan.planner.is_due(now()) {
            return;
        }
        let job = BackupJob::Take {
            name: None,
            keep: settings.backup_keep,
        };
        let (view, me) = (self.view.clone(), self.me);
        let is_wanted = move || leader(&view).is_none_or(|leader| leader == me);
        let open = || open(&plan.target);
        let done = self.jobs.run_here(&job, &plan.target, Box::new(is_wanted), open);
        match done {
            None => {}
            Some(Ok(report)) => plan.planner.on_newest(report.made),
            Some(Err(_)) => plan.planner.on_failed(now()),
        }
    }
}

/// Sees which backup of this cluster is the newest in the target. `false` if that cannot be seen.
fn look(plan: &mut Plan, view: &View, shared: &Shared) -> bool {
    let cluster = view.seen().and_then(|seen| seen.map.cluster);
    let cluster = cluster.map_or_else(String::new, |cluster| format!("{:032x}", cluster.0));
    match open(&plan.target).and_then(|target| newest(&*target, &cluster)) {
        Ok(made) => {
            plan.look_at = u64::MAX;
            plan.planner.on_newest(made);
            if let Some(made) = made.and_then(|made| i64::try_from(made).ok()) {
                shared.backups.set_good(UnixMillis(made));
            }
            true
        }
        Err(error) => {
            let why = format!("backup-target {} cannot be looked at: {error}", plan.target);
            tracing::warn!("{why}; that is tried again in {} s", RETRY_PAUSE.as_secs());
            shared.backups.set_failed(clock::now(), &why);
            plan.planner.on_failed(now());
            plan.look_at = now() + RETRY_PAUSE.as_millis() as u64;
            false
        }
    }
}

fn open(target: &str) -> Result<Box<dyn BackupTarget>, BackupError> {
    let place = TargetPlace::parse(target)?;
    if let TargetPlace::Directory(path) = &place {
        refuse_data_directory(path)?;
    }
    place.open_existing(|name| std::env::var(name).ok())
}

/// When the newest backup of this cluster was made; one whose manifest cannot be read does not count.
fn newest(target: &dyn BackupTarget, cluster: &str) -> Result<Option<u64>, BackupError> {
    let manifests = backups(target)?
        .into_iter()
        .filter_map(|entry| entry.manifest.ok());
    let own = manifests.filter(|manifest| manifest.cluster == cluster);
    Ok(own.map(|manifest| manifest.made).max())
}

/// Who leads the meta group, as far as this node knows.
fn leader(view: &View) -> Option<NodeId> {
    view.seen().and_then(|seen| seen.map.meta.leader)
}

fn now() -> u64 {
    u64::try_from(clock::now().0).unwrap_or(0)
}

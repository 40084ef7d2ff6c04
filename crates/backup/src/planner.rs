//! When a cluster takes a backup by itself. No clock and no target: what they say comes in.
//!
//! ```text
//!   a time of the schedule           now
//!  ------|---------*------------------|---->      * the newest backup, or else since when there is this plan
//!        |         |                  |
//!        '- done --'   nothing is due ' until the schedule's next time
//! ```
//!
//! 1. A backup is due if the schedule had a time since the newest was made. However many times it had, one backup is due.
//! 2. Without a backup those times count that the plan was there for: a schedule that is set at noon asks for none of last night.
//! 3. What has failed is due again after [`RETRY_PAUSE`].
//!
//! So whoever takes over has nothing to be told but what is in the target.

use options::CronSchedule;
use std::time::Duration;

/// After a backup that failed, before the next is tried.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10 * 60);

const MINUTE: u64 = 60_000;

/// See the file's header. All times are Unix milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupPlanner {
    schedule: CronSchedule,
    since: u64,
    newest: Option<u64>,
    failed: Option<u64>,
}

impl BackupPlanner {
    /// There is this plan from now on.
    pub fn new(schedule: CronSchedule, now: u64) -> BackupPlanner {
        BackupPlanner {
            schedule,
            since: now,
            newest: None,
            failed: None,
        }
    }

    /// The newest backup was made then; there is none.
    pub fn on_newest(&mut self, made: Option<u64>) {
        self.newest = made;
        self.failed = None;
    }

    /// A backup was tried, or could not be, and failed now.
    pub fn on_failed(&mut self, now: u64) {
        self.failed = Some(now);
    }

    /// Whether one is to be taken now.
    pub fn is_due(&self, now: u64) -> bool {
        self.next(now).is_some_and(|next| next <= now)
    }

    /// When the next is to be taken; it may be over. `None` only of times that no calendar has.
    pub fn next(&self, now: u64) -> Option<u64> {
        let reference = self.newest.unwrap_or(self.since) / MINUTE;
        let due = self.schedule.next(i64::try_from(reference).ok()?)?;
        let due = u64::try_from(due).ok()? * MINUTE;
        // If the clock was set back meanwhile it does not wait.
        let failed = self.failed.filter(|failed| *failed <= now);
        let again = failed.map_or(0, |failed| failed + RETRY_PAUSE.as_millis() as u64);
        Some(due.max(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    /// 2026-11-26 00:00.
    const MIDNIGHT: u64 = 20_783 * DAY;

    /// Every night at three, known since noon.
    fn planner() -> BackupPlanner {
        let schedule = CronSchedule::parse("0 3 * * *").unwrap();
        BackupPlanner::new(schedule, MIDNIGHT + 12 * HOUR)
    }

    #[test]
    fn the_first_backup_is_due_at_the_first_time_that_the_plan_is_there_for() {
        let planner = planner();
        let due = MIDNIGHT + 27 * HOUR;
        assert_eq!(planner.next(MIDNIGHT + 12 * HOUR), Some(due));
        assert!(!planner.is_due(MIDNIGHT + 13 * HOUR));
        assert!(!planner.is_due(due - 1));
        assert!(planner.is_due(due) && planner.is_due(due + 5 * HOUR));
    }

    #[test]
    fn however_many_times_were_missed_one_backup_is_due() {
        let mut planner = planner();
        let now = MIDNIGHT + 10 * DAY + 7 * HOUR;
        planner.on_newest(Some(MIDNIGHT + 3 * HOUR + 5));
        assert!(planner.is_due(now));
        planner.on_newest(Some(now));
        assert!(!planner.is_due(now) && !planner.is_due(now + 19 * HOUR));
        assert_eq!(planner.next(now), Some(MIDNIGHT + 11 * DAY + 3 * HOUR));
    }

    #[test]
    fn a_backup_that_is_there_counts_whoever_took_it() {
        let mut planner = planner();
        let due = MIDNIGHT + 27 * HOUR;
        planner.on_newest(Some(due + 1));
        assert!(!planner.is_due(due + HOUR));
        planner.on_newest(Some(due - HOUR));
        assert!(planner.is_due(due));
    }

    #[test]
    fn one_that_was_made_within_its_minute_is_not_made_again() {
        let mut planner = planner();
        let due = MIDNIGHT + 27 * HOUR;
        planner.on_newest(Some(due));
        assert!(!planner.is_due(due) && !planner.is_due(due + MINUTE));
    }

    #[test]
    fn what_failed_is_tried_again_after_a_pause() {
        let mut planner = planner();
        let due = MIDNIGHT + 27 * HOUR;
        planner.on_failed(due + 3);
        let again = due + 3 + RETRY_PAUSE.as_millis() as u64;
        assert!(!planner.is_due(due + 4) && !planner.is_due(again - 1));
        assert!(planner.is_due(again));
        // The clock was set back.
        planner.on_failed(due + 9 * DAY);
        assert!(planner.is_due(due + HOUR));
        planner.on_newest(Some(again));
        assert_eq!(planner.next(again), Some(due + DAY));
    }
}

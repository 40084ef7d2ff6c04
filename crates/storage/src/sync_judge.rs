//! Whether the disk of a node is fast enough to lead with: judged by the node itself, since nobody else sees its syncs.
//!
//! ```text
//!   fit ---- strict: p99 above 50 ms and five times the others' ----> slow     others are to lead
//!    ^  ---- one sync longer than clients would wait for votes -----> slow
//!    '------ for 10 s neither holds, with half of these limits ------'
//!   any ---- one sync of 30 s that lasts a second later ---> hopeless          the process is to end
//! ```
//!
//! In `relaxed` no answer waits for a sync, unless it takes two windows ([`WorkerDisk`](crate::WorkerDisk), invariant 4): that is the
//! limit for one sync then, and what most take does not matter.
//!
//! Invariants:
//! 1. One sync decides nothing by having been slow, but by lasting: p99 leaves out the slowest of all.
//! 2. That a process stood still does not end it. Its sync may have ended meanwhile, before the loop could hear of that: so the sync is
//!    looked at twice, with time between in which the loop hears.
//! 3. Where nothing is known of others, or they are as slow, nobody is slow by p99: it would change nothing.

use crate::worker_disk::SYNC_WINDOW;
use consensus::Times;
use ids::{DurabilityMode, Monotonic};
use std::collections::VecDeque;
use std::time::Duration;

/// Syncs that are looked back at, and for how long; fewer than the least say nothing.
const SYNCS_MAX: usize = 1024;
const SYNCS_MIN: usize = 32;
const LOOK_BACK: Duration = Duration::from_secs(30);

/// What 99 of 100 syncs may take whatever it is with others, and how many times as long as theirs.
const P99_MAX: Duration = Duration::from_millis(50);
const TIMES_MAX: u32 = 5;

/// How long one sync may last in `strict`: so long groups wait for a leader that is silent before they look for another.
const SYNC_MAX: Duration = Times::DEFAULT.election_max;

/// After this long a sync is not waited for: whoever waits is better off with a process that is not there.
pub const HOPELESS: Duration = Duration::from_secs(30);

/// How long after the first look at a sync that lasts too long the second one is.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// How long a disk is well before it counts as fit again.
const REST: Duration = Duration::from_secs(10);

/// How a disk is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DiskPace {
    /// Fast enough to lead with.
    Fit,
    /// Others are to lead.
    Slow,
    /// Nothing is to be expected of it: the process is to end.
    Hopeless,
}

/// See the file's header.
#[derive(Debug)]
pub struct SyncJudge {
    mode: DurabilityMode,
    /// When the sync under way began.
    since: Option<Monotonic>,
    /// When that was first seen to have lasted for too long.
    overdue_at: Option<Monotonic>,
    /// When syncs ended, and what they took.
    took: VecDeque<(Monotonic, Duration)>,
    /// Since when the disk is slow, or when it was last seen to be.
    slow_at: Option<Monotonic>,
}

impl SyncJudge {
    /// Of a disk that is used in this mode.
    pub fn new(mode: DurabilityMode) -> SyncJudge {
        SyncJudge {
            mode,
            since: None,
            overdue_at: None,
            took: VecDeque::new(),
            slow_at: None,
        }
    }

    /// It is used in another mode from here on.
    pub fn set_mode(&mut self, mode: DurabilityMode) {
        self.mode = mode;
    }

    /// A sync begins.
    pub fn begins(&mut self, now: Monotonic) {
        (self.since, self.overdue_at) = (Some(now), None);
    }

    /// It has ended.
    pub fn ended(&mut self, now: Monotonic) {
        self.overdue_at = None;
        let Some(since) = self.since.take() else { return };
        let took = now.since(since);
        if took >= self.sync_max() {
            self.slow_at = Some(now);
        }
        if self.took.len() == SYNCS_MAX {
            self.took.pop_front();
        }
        self.took.push_back((now, took));
    }

    /// What 99 of 100 syncs have taken at most, of those of late; `None` if these are too few.
    pub fn p99(&mut self, now: Monotonic) -> Option<Duration> {
        while self
            .took
            .pop_front_if(|(at, _)| now.since(*at) > LOOK_BACK)
            .is_some()
        {}
        if self.took.len() < SYNCS_MIN {
            return None;
        }
        let mut all: Vec<Duration> = self.took.iter().map(|(_, took)| *took).collect();
        all.sort_unstable();
        Some(all[all.len() - 1 - (all.len() / 100).max(1)])
    }

    /// What is to be thought of the disk, beside what 99 of 100 syncs take at other nodes.
    pub fn judge(&mut self, now: Monotonic, others: &[Duration]) -> DiskPace {
        let lasts = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if lasts >= HOPELESS {
            let overdue_at = *self.overdue_at.get_or_insert(now);
            if now.since(overdue_at) >= SECOND_LOOK {
                return DiskPace::Hopeless;
            }
        }
        // What is slow already has to be well by a margin.
        let margin = if self.slow_at.is_some() { 2 } else { 1 };
        let is_slow = lasts >= self.sync_max() || self.is_slow_beside(now, others, margin);
        if is_slow {
            self.slow_at = Some(now);
        }
        self.slow_at.take_if(|at| now.since(*at) >= REST);
        match self.slow_at {
            Some(_) => DiskPace::Slow,
            None => DiskPace::Fit,
        }
    }

    fn sync_max(&self) -> Duration {
        match self.mode {
            DurabilityMode::Strict => SYNC_MAX,
            DurabilityMode::Memory | DurabilityMode::Relaxed => SYNC_WINDOW * 2,
        }
    }

    /// Of two others the faster one counts: it is the one that is to lead.
    fn is_slow_beside(&mut self, now: Monotonic, others: &[Duration], margin: u32) -> bool {
        let mut others = others.to_vec();
        others.sort_unstable();
        let middle = others.len().checked_sub(1).map(|last| others[last / 2]);
        let (Some(own), Some(middle), DurabilityMode::Strict) = (self.p99(now), middle, self.mode) else {
            return false;
        };
        own > P99_MAX / margin && own * margin > middle * TIMES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Scene {
        judge: SyncJudge,
        now: Monotonic,
    }

    impl Scene {
        fn new(mode: DurabilityMode) -> Scene {
            Scene {
                judge: SyncJudge::new(mode),
                now: Monotonic(1_000_000_000),
            }
        }

        fn syncs(&mut self, count: usize, each: Duration) {
            for _ in 0..count {
                self.judge.begins(self.now);
                self.now = self.now.after(each);
                self.judge.ended(self.now);
                self.now = self.now.after(MS);
            }
        }

        fn judge(&mut self, others: &[u64]) -> DiskPace {
            let others: Vec<Duration> = others.iter().map(|millis| MS * *millis as u32).collect();
            self.judge.judge(self.now, &others)
        }
    }

    #[test]
    fn one_that_is_five_times_slower_than_others_and_slow_gives_leadership_away() {
        for (own, others, expected) in [
            (60, &[2, 3][..], DiskPace::Slow),
            (60, &[2, 60], DiskPace::Slow),
            (40, &[2, 3], DiskPace::Fit),
            (60, &[20, 60], DiskPace::Fit),
            (60, &[], DiskPace::Fit),
            (60, &[1], DiskPace::Slow),
            (300, &[1, 200, 300, 1], DiskPace::Slow),
            (300, &[1, 200, 300, 200], DiskPace::Fit),
        ] {
            let mut scene = Scene::new(DurabilityMode::Strict);
            scene.syncs(100, MS * own);
            assert_eq!(scene.judge(others), expected, "{own} beside {others:?}");
            let mut relaxed = Scene::new(DurabilityMode::Relaxed);
            relaxed.syncs(100, MS * own);
            assert_eq!(relaxed.judge(others), DiskPace::Fit, "no answer waits for it");
        }
    }

    #[test]
    fn a_few_syncs_say_nothing_and_neither_does_a_single_slow_one() {
        let mut scene = Scene::new(DurabilityMode::Strict);
        scene.syncs(SYNCS_MIN - 1, MS * 100);
        assert_eq!(
            (scene.judge.p99(scene.now), scene.judge(&[1])),
            (None, DiskPace::Fit)
        );
        let mut scene = Scene::new(DurabilityMode::Strict);
        scene.syncs(50, MS);
        scene.syncs(1, MS * 300);
        scene.syncs(50, MS);
        assert_eq!(scene.judge.p99(scene.now), Some(MS));
        assert_eq!(scene.judge(&[1]), DiskPace::Fit);
    }

    #[test]
    fn a_sync_that_lasts_makes_it_slow_and_one_that_does_not_end_hopeless() {
        for (mode, limit) in [
            (DurabilityMode::Strict, SYNC_MAX),
            (DurabilityMode::Relaxed, SYNC_WINDOW * 2),
        ] {
            let mut scene = Scene::new(mode);
            let began = scene.now;
            scene.judge.begins(began);
            let mut at = |after: Duration| {
                scene.now = began.after(after);
                scene.judge(&[1, 1])
            };
            assert_eq!(at(limit - MS), DiskPace::Fit);
            assert_eq!(at(limit), DiskPace::Slow);
            assert_eq!(at(HOPELESS - MS), DiskPace::Slow);
            assert_eq!(at(HOPELESS), DiskPace::Slow, "the process may have stood still");
            assert_eq!(at(HOPELESS + SECOND_LOOK), DiskPace::Hopeless);
        }
    }

    #[test]
    fn a_sync_that_ended_while_the_process_stood_still_is_none_that_hangs() {
        let mut scene = Scene::new(DurabilityMode::Strict);
        scene.judge.begins(scene.now);
        scene.now = scene.now.after(HOPELESS * 2);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow);
        scene.judge.ended(scene.now);
        scene.now = scene.now.after(SECOND_LOOK);
        scene.judge.begins(scene.now);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow, "it is another one");
    }

    #[test]
    fn it_is_fit_again_when_it_was_well_for_a_while() {
        let mut scene = Scene::new(DurabilityMode::Strict);
        scene.syncs(1, SYNC_MAX);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow, "although it has ended");
        scene.now = scene.now.after(REST - MS * 2);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow);
        scene.now = scene.now.after(MS * 2);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Fit);
        scene.syncs(100, MS * 60);
        assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow);
        // Below the limits, and not by enough.
        for _ in 0..60 {
            scene.syncs(20, MS * 30);
            assert_eq!(scene.judge(&[1, 1]), DiskPace::Slow);
        }
        let before = scene.now;
        while scene.judge(&[1, 1]) == DiskPace::Slow {
            scene.syncs(20, MS);
        }
        assert!(scene.now.since(before) >= REST && scene.now.since(before) < LOOK_BACK + REST);
    }
}

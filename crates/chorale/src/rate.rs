//! How fast something goes, by what was seen of it lately, and when it is over if it goes on like that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What was seen before does not count: what goes slower by now, because clients are served first or the disk is full, does not end when
/// it would have ended.
const LATELY: Duration = Duration::from_secs(30);
/// What is seen between is not kept, but for the newest.
const KEPT_EVERY: Duration = Duration::from_millis(250);
/// Of less than this time nothing is said.
const SEEN_MIN: Duration = Duration::from_secs(2);

/// How much was done when.
#[derive(Default)]
pub(crate) struct Rate {
    /// In the order of time; two at most are older than [`LATELY`], and all but the newest [`KEPT_EVERY`] apart.
    seen: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// So much is done now.
    pub(crate) fn see(&mut self, done: u64, now: Instant) {
        let last = self.seen.iter().rev().nth(1).map(|(time, _)| *time);
        if last.is_some_and(|last| now.duration_since(last) < KEPT_EVERY) {
            self.seen.pop_back();
        }
        self.seen.push_back((now, done));
        // The one that is just older stays, so that the whole time counts.
        while self
            .seen
            .get(1)
            .is_some_and(|(time, _)| now.duration_since(*time) >= LATELY)
        {
            self.seen.pop_front();
        }
    }

    /// How much is done in a second; none if nothing was, or if that is not known yet.
    pub(crate) fn a_second(&self) -> Option<f64> {
        let ((began, before), (now, done)) = (self.seen.front()?, self.seen.back()?);
        let time = now.duration_since(*began);
        if time < SEEN_MIN {
            return None;
        }
        a_second(done.checked_sub(*before)?, time)
    }
}

/// How much is done in a second, if so much is in this time; none if nothing is.
pub(crate) fn a_second(done: u64, time: Duration) -> Option<f64> {
    (done > 0 && !time.is_zero()).then(|| done as f64 / time.as_secs_f64())
}

/// The time that is left, in words.
pub(crate) fn time_in_words(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_was_done_lately_counts() {
        let (mut rate, begun) = (Rate::default(), Instant::now());
        rate.see(0, begun);
        rate.see(500, begun + SECOND);
        assert_eq!(rate.a_second(), None, "it is too early");
        for second in 2..=10 {
            rate.see(second * 500, begun + SECOND * second as u32);
        }
        assert_eq!(rate.a_second(), Some(500.0));
        // It comes to be slow.
        for second in 11..=60 {
            rate.see(5_000 + second - 10, begun + SECOND * second as u32);
        }
        assert_eq!(rate.a_second(), Some(1.0));
        for second in 61..=100 {
            rate.see(5_050, begun + SECOND * second as u32);
        }
        assert_eq!(rate.a_second(), None, "it stands still");
        rate.see(4_000, begun + SECOND * 101);
        assert_eq!(rate.a_second(), None, "it goes back");
    }

    #[test]
    fn looks_in_a_hurry_are_not_all_kept() {
        let (mut rate, begun) = (Rate::default(), Instant::now());
        for millis in 0..100_000 {
            rate.see(millis, begun + Duration::from_millis(millis));
        }
        assert!(rate.seen.len() <= 124, "{}", rate.seen.len());
        let found = rate.a_second().expect("it goes on");
        assert!((found - 1_000.0).abs() < 1.0, "{found}");
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let said = [0.4, 119.0, 150.0, 9_000.0].map(time_in_words);
        assert_eq!(said, ["0 s", "119 s", "2 min", "2 h"]);
    }
}

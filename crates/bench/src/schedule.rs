//! When requests of an open loop are due: at times fixed beforehand, whatever became of those before.
//!
//! A client that waits for a reply before it asks again leaves out just the requests that would have met a stall ("coordinated
//! omission", Gil Tene: "How NOT to measure latency", 2015). Here each request has a time at which it ought to begin, and its
//! latency is counted from there, whenever it could be sent.

use std::fmt;
use std::str::FromStr;

use ids::Prng;

use crate::keys::unit;

/// How far the beginnings of requests of an open loop lie from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Equally far.
    #[default]
    Even,
    /// As those of many people who know nothing of each other: a Poisson process, in which gaps are exponential, and requests come
    /// in bunches.
    Poisson,
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        match text {
            "even" => Ok(Arrivals::Even),
            "poisson" => Ok(Arrivals::Poisson),
            _ => Err("take even or poisson".to_owned()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arrivals::Even => "even",
            Arrivals::Poisson => "poisson",
        })
    }
}

/// The times of one thread, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: u64,
    /// From one of this thread's requests to the next, on average.
    interval: f64,
    next: Next,
}

#[derive(Debug)]
enum Next {
    /// Threads take turns: which of this thread's requests it is, and how far behind the first thread it is.
    Even { place: u64, shift: f64 },
    /// Each thread draws for itself: several Poisson processes together are one.
    Poisson { after: f64, prng: Prng },
}

impl Schedule {
    /// Thread number `thread` of `threads`, at `rate` requests per second of all of them.
    pub(crate) fn new(
        start: u64,
        rate: f64,
        arrivals: Arrivals,
        seed: u64,
        thread: u64,
        threads: u64,
    ) -> Schedule {
        let mut schedule = Schedule {
            start,
            interval: 1e9 / rate * threads as f64,
            next: match arrivals {
                Arrivals::Even => Next::Even {
                    place: 0,
                    shift: 1e9 / rate * thread as f64,
                },
                Arrivals::Poisson => Next::Poisson {
                    after: 0.0,
                    prng: Prng::new(seed),
                },
            },
        };
        if arrivals == Arrivals::Poisson {
            // Not even the first one is known.
            schedule.advance();
        }
        schedule
    }

    /// When the next one is due.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        let after = match &self.next {
            // Multiplied, not added up, so that nothing is lost to rounding.
            Next::Even { place, shift } => *place as f64 * self.interval + shift,
            Next::Poisson { after, .. } => *after,
        };
        self.start + after as u64
    }

    /// The next one has begun.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match &mut self.next {
            Next::Even { place, .. } => *place += 1,
            Next::Poisson { after, prng } => *after -= (1.0 - unit(prng)).ln() * self.interval,
        }
    }

    /// How many more are due before `end`; of a Poisson process, beside the next one, how many are to be expected.
    pub(crate) fn left_before(&self, end: u64) -> u64 {
        let due = self.due();
        if due >= end {
            return 0;
        }
        1 + ((end - 1 - due) as f64 / self.interval) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_rate_and_take_turns() {
        let mut threads =
            [0, 1, 2].map(|thread| Schedule::new(1_000, 3_000_000.0, Arrivals::Even, 1, thread, 3));
        let mut times: Vec<u64> = threads
            .iter_mut()
            .flat_map(|schedule| {
                (0..1_000).map(|_| {
                    let due = schedule.due();
                    schedule.advance();
                    due
                })
            })
            .collect();
        times.sort_unstable();
        assert_eq!(times[0], 1_000);
        assert_eq!(times[3], 2_000, "three a microsecond");
        assert_eq!(times[2_997], 1_000_000);
        assert!(
            times
                .windows(2)
                .all(|pair| (333..=334).contains(&(pair[1] - pair[0])))
        );
    }

    #[test]
    fn what_was_not_begun_is_counted() {
        let mut schedule = Schedule::new(0, 1_000.0, Arrivals::Even, 1, 0, 1);
        assert_eq!(schedule.left_before(1_000_000_000), 1_000);
        for left in (0..1_000).rev() {
            schedule.advance();
            assert_eq!(schedule.left_before(1_000_000_000), left);
        }
    }

    #[test]
    fn poisson_arrivals_of_all_threads_together_have_the_rate_and_the_spread_of_one_process() {
        // A thousand milliseconds at 100,000 per second, by three threads: in each, a hundred on average.
        let mut counts = [0_u32; 1_000];
        for thread in 0..3 {
            let mut schedule = Schedule::new(0, 100_000.0, Arrivals::Poisson, 7 + thread, thread, 3);
            let mut last = 0;
            while schedule.due() < 1_000_000_000 {
                assert!(schedule.due() >= last, "times go forward");
                last = schedule.due();
                counts[(last / 1_000_000) as usize] += 1;
                schedule.advance();
            }
        }
        let counts = counts.map(f64::from);
        let mean = counts.iter().sum::<f64>() / 1_000.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1_000.0;
        // The variance of counts of a Poisson process is their mean; of even arrivals it is nothing.
        assert!((mean - 100.0).abs() < 1.5, "{mean}");
        assert!((variance - 100.0).abs() < 20.0, "{variance}");
    }

    #[test]
    fn of_poisson_arrivals_as_many_are_left_as_are_to_be_expected() {
        let mut schedule = Schedule::new(0, 1_000.0, Arrivals::Poisson, 3, 0, 1);
        for _ in 0..500 {
            let due = schedule.due();
            assert_eq!(schedule.left_before(due), 0);
            assert_eq!(schedule.left_before(due + 1), 1);
            assert_eq!(schedule.left_before(due + 10_000_001), 11);
            schedule.advance();
        }
    }

    #[test]
    fn arrivals_are_read_as_they_are_written() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            assert_eq!(arrivals.to_string().parse(), Ok(arrivals));
        }
        let problem = "random"
            .parse::<Arrivals>()
            .expect_err("there is none of this name");
        assert!(problem.contains("even or poisson"));
    }
}

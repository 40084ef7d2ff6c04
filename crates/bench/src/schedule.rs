//! When requests of an open loop are due: at fixed times, whatever became of those before.
//!
//! A client that waits for a reply before it asks again leaves out just the requests that would have met a stall ("coordinated
//! omission", Gil Tene: "How NOT to measure latency", 2015). Here each request has a time at which it ought to begin, and its
//! latency is counted from there, whenever it could be sent.

/// The times of one thread, in nanoseconds. The threads take turns.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: u64,
    /// From one of all threads' requests to the next.
    interval: f64,
    next: u64,
    threads: u64,
}

impl Schedule {
    /// Thread number `thread` of `threads`, at `rate` requests per second of all of them.
    pub(crate) fn new(start: u64, rate: f64, thread: u64, threads: u64) -> Schedule {
        Schedule {
            start,
            interval: 1e9 / rate,
            next: thread,
            threads,
        }
    }

    /// When the next one is due.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        // Multiplied, not added up, so that nothing is lost to rounding.
        self.start + (self.next as f64 * self.interval) as u64
    }

    /// The next one has begun.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += self.threads;
    }

    /// How many more are due before `end`.
    pub(crate) fn left_before(&self, end: u64) -> u64 {
        let due = self.due();
        if due >= end {
            return 0;
        }
        1 + ((end - 1 - due) as f64 / (self.interval * self.threads as f64)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_rate_and_take_turns() {
        let mut threads = [0, 1, 2].map(|thread| Schedule::new(1_000, 3_000_000.0, thread, 3));
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
        let mut schedule = Schedule::new(0, 1_000.0, 0, 1);
        assert_eq!(schedule.left_before(1_000_000_000), 1_000);
        for left in (0..1_000).rev() {
            schedule.advance();
            assert_eq!(schedule.left_before(1_000_000_000), left);
        }
    }
}

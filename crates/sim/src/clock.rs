//! Clocks: one truth, and what each node takes for it.

use ids::{Monotonic, Prng, UnixMillis};
use std::cell::RefCell;

/// A microsecond.
pub(crate) const MICROS: u64 = 1_000;
/// A millisecond.
pub(crate) const MILLIS: u64 = 1_000_000;
/// A second.
pub(crate) const SECONDS: u64 = 1_000_000_000;

/// The wall clock at the beginning of every simulation: the first of January 2030.
pub(crate) const WALL_START_MILLIS: i64 = 1_893_456_000_000;

const MILLION: i128 = 1_000_000;

/// A node's clocks as functions of the true time, which is counted in nanoseconds from 0.
#[derive(Clone, Debug)]
pub(crate) struct NodeClock {
    /// Where its monotonic clock began.
    offset: u64,
    /// How much too fast it is, in millionths.
    drift_ppm: i64,
    /// How far the wall clock is ahead.
    wall_millis: i64,
}

impl NodeClock {
    pub(crate) fn new(offset: u64, drift_ppm: i64, wall_millis: i64) -> NodeClock {
        NodeClock {
            offset,
            drift_ppm,
            wall_millis,
        }
    }

    /// What the monotonic clock shows.
    pub(crate) fn monotonic(&self, truth: u64) -> Monotonic {
        let passed = i128::from(truth) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        Monotonic(self.offset + passed as u64)
    }

    /// When the monotonic clock shows `reading`, or a little later.
    pub(crate) fn truth(&self, reading: Monotonic) -> u64 {
        let passed = i128::from(reading.0.saturating_sub(self.offset));
        (passed * MILLION / (MILLION + i128::from(self.drift_ppm)) + 1) as u64
    }

    /// What the wall clock shows.
    pub(crate) fn wall(&self, truth: u64) -> UnixMillis {
        UnixMillis(WALL_START_MILLIS + (truth / MILLIS) as i64 + self.wall_millis)
    }

    /// Somebody sets the wall clock.
    pub(crate) fn jump(&mut self, by_millis: i64) {
        self.wall_millis += by_millis;
    }
}

/// A node's clock while it is at work. Reading it takes time, and sometimes long: the process may be stopped between any
/// two things it does.
pub(crate) struct Clock<'a> {
    clock: &'a NodeClock,
    truth: u64,
    prng: &'a mut Prng,
    /// Of a million readings so many come after a stall, and how long the longest is.
    stalls: (u64, u64),
}

impl<'a> Clock<'a> {
    pub(crate) fn new(clock: &'a NodeClock, truth: u64, prng: &'a mut Prng, stalls: (u64, u64)) -> Clock<'a> {
        Clock {
            clock,
            truth,
            prng,
            stalls,
        }
    }

    /// The monotonic clock, read now.
    pub(crate) fn read(&mut self) -> Monotonic {
        self.truth += MICROS;
        if self.stalls.0 > 0 && self.prng.below(1_000_000) < self.stalls.0 {
            self.truth += self.prng.below(self.stalls.1.max(1));
        }
        self.clock.monotonic(self.truth)
    }

    /// The wall clock.
    pub(crate) fn wall(&self) -> UnixMillis {
        self.clock.wall(self.truth)
    }

    /// The truth, for checks and traces: a node that decides by it is none.
    pub(crate) fn truth(&self) -> u64 {
        self.truth
    }
}

/// A clock whose reader has it from nowhere: the product asks a function for the time.
struct Lent {
    clock: NodeClock,
    truth: u64,
    prng: Prng,
    stalls: (u64, u64),
}

thread_local! {
    static LENT: RefCell<Option<Lent>> = const { RefCell::new(None) };
}

impl Clock<'_> {
    /// Does `work`, while [`lent`] and [`glance`] read this clock.
    pub(crate) fn lend<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let lent = Lent {
            clock: self.clock.clone(),
            truth: self.truth,
            prng: std::mem::replace(self.prng, Prng::new(0)),
            stalls: self.stalls,
        };
        LENT.set(Some(lent));
        let result = work();
        let lent = LENT.take().expect("it was lent above");
        self.truth = lent.truth;
        *self.prng = lent.prng;
        result
    }
}

/// Reads the clock that is lent, as [`Clock::read`] does. Without one no time passes.
pub(crate) fn lent() -> Monotonic {
    LENT.with_borrow_mut(|lent| match lent {
        Some(lent) => {
            let mut clock = Clock::new(&lent.clock, lent.truth, &mut lent.prng, lent.stalls);
            let now = clock.read();
            lent.truth = clock.truth;
            now
        }
        None => Monotonic(0),
    })
}

/// Nanoseconds on the clock that is lent, for what nobody is promised anything by: looking takes no time.
pub(crate) fn glance() -> u64 {
    LENT.with_borrow(|lent| lent.as_ref().map_or(0, |lent| lent.clock.monotonic(lent.truth).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_drifts_still_rings_when_it_was_asked_to() {
        for drift in [-50_000, 0, 1, 50_000, 300_000] {
            let clock = NodeClock::new(77, drift, 0);
            for truth in [0, 1, 999_999, 123_456_789_012] {
                let reading = clock.monotonic(truth);
                let rings = clock.truth(reading);
                assert!(clock.monotonic(rings) >= reading, "{drift} {truth}");
                assert!(rings <= truth + 2, "{drift} {truth} {rings}");
            }
        }
    }
}

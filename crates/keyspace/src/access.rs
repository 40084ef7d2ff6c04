//! When and how often a key was used: what eviction and `OBJECT IDLETIME/FREQ` ask.
//!
//! Leader-local. It is not replicated, is no input of `apply` and no part of the state hash: two replicas may
//! differ in it, and only the leader's decides what to evict, through an entry that names the key.

use command::RestoredUse;
use ids::{Prng, UnixMillis};

/// Statistics of one key in four bytes.
///
/// Least recently used: the second of the last access, wrapping after 136 years. Least frequently used: the
/// minute of the last decay (16 bits) and a logarithmic counter (8 bits), as Redis's LFU has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessStats(pub u32);

/// How accesses are counted.
#[derive(Clone, Debug)]
pub struct AccessClock {
    seconds: u32,
    minutes: u16,
    lfu: Option<LfuParameters>,
    prng: Prng,
}

/// `lfu-log-factor` and `lfu-decay-time` (minutes).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LfuParameters {
    /// The larger, the more accesses a counter of 255 stands for.
    pub log_factor: u32,
    /// Minutes after which a counter falls by one; 0: never.
    pub decay_minutes: u32,
}

/// A new key starts here, so that it is not evicted before it had a chance to be used.
const LFU_INITIAL: u8 = 5;

impl AccessClock {
    /// A clock that counts recency.
    pub fn new(seed: u64) -> AccessClock {
        AccessClock {
            seconds: 0,
            minutes: 0,
            lfu: None,
            prng: Prng::new(seed),
        }
    }

    /// Tells the time, once a turn, and what to count.
    pub fn set(&mut self, now: UnixMillis, lfu: Option<LfuParameters>) {
        // A clock that was set back must not make keys of a moment ago look idle since the last wrap.
        self.seconds = self.seconds.max((now.0 / 1_000) as u32);
        self.minutes = (self.seconds / 60) as u16;
        self.lfu = lfu;
    }

    /// Statistics of a key made now.
    #[inline]
    pub fn fresh(&self) -> AccessStats {
        match self.lfu {
            None => AccessStats(self.seconds),
            Some(_) => AccessStats::lfu(self.minutes, LFU_INITIAL),
        }
    }

    /// Statistics of a key used now.
    #[inline]
    pub fn touched(&mut self, before: AccessStats) -> AccessStats {
        match self.lfu {
            None => AccessStats(self.seconds),
            Some(parameters) => {
                let counter = self.frequency(before);
                AccessStats::lfu(self.minutes, self.increment(counter, parameters.log_factor))
            }
        }
    }

    /// Statistics of a key that `RESTORE` makes. What is said of the other way of counting says nothing.
    pub fn restored(&self, use_of_key: RestoredUse) -> AccessStats {
        match (use_of_key, self.lfu) {
            (RestoredUse::Idle(seconds), None) => {
                let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                AccessStats(self.seconds.saturating_sub(seconds))
            }
            (RestoredUse::Frequency(counter), Some(_)) => AccessStats::lfu(self.minutes, counter),
            _ => self.fresh(),
        }
    }

    /// Seconds since the last access, where recency is counted.
    pub fn idle_seconds(&self, access: AccessStats) -> u32 {
        self.seconds.wrapping_sub(access.0)
    }

    /// The counter after decay, where frequency is counted.
    pub fn frequency(&self, access: AccessStats) -> u8 {
        let Some(parameters) = self.lfu else { return 0 };
        let counter = (access.0 & 0xff) as u8;
        if parameters.decay_minutes == 0 {
            return counter;
        }
        let elapsed = self.minutes.wrapping_sub((access.0 >> 8) as u16);
        let periods = u32::from(elapsed) / parameters.decay_minutes;
        counter.saturating_sub(periods.min(255) as u8)
    }

    /// Whether frequency is counted.
    pub fn counts_frequency(&self) -> bool {
        self.lfu.is_some()
    }

    /// The higher the counter, the less likely it grows: 255 stands for about a million accesses at the
    /// default factor of ten.
    fn increment(&mut self, counter: u8, log_factor: u32) -> u8 {
        if counter == u8::MAX {
            return counter;
        }
        let base = u64::from(counter.saturating_sub(LFU_INITIAL));
        let odds = base * u64::from(log_factor) + 1;
        if self.prng.below(odds) == 0 {
            counter + 1
        } else {
            counter
        }
    }
}

impl AccessStats {
    fn lfu(minutes: u16, counter: u8) -> AccessStats {
        AccessStats(u32::from(minutes) << 8 | u32::from(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_grows_slowly_and_decays_by_minutes() {
        let mut clock = AccessClock::new(1);
        let parameters = Some(LfuParameters {
            log_factor: 10,
            decay_minutes: 1,
        });
        clock.set(UnixMillis(0), parameters);
        let mut access = clock.fresh();
        for _ in 0..1_000 {
            access = clock.touched(access);
        }
        let hot = clock.frequency(access);
        assert!((10..60).contains(&hot), "{hot}");
        clock.set(UnixMillis(3 * 60_000), parameters);
        assert_eq!(clock.frequency(access), hot - 3);
        clock.set(UnixMillis(600 * 60_000), parameters);
        assert_eq!(clock.frequency(access), 0);
    }

    #[test]
    fn idle_time_is_counted_in_seconds() {
        let mut clock = AccessClock::new(1);
        clock.set(UnixMillis(10_000), None);
        let access = clock.fresh();
        clock.set(UnixMillis(17_500), None);
        assert_eq!(clock.idle_seconds(access), 7);
    }
}

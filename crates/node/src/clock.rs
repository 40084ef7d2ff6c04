//! The only readers of clocks that decide what clients see: the wall clock, the one that commands are timed by, and the one
//! that leases are counted by. `unsafe` around a system call.

use ids::{Monotonic, UnixMillis};
use std::sync::LazyLock;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch. A clock set before it reads as the epoch itself.
pub(crate) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Nanoseconds since this was first called. It never goes back.
pub(crate) fn nanos() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The raw monotonic clock, which nobody sets or slews, and the time for which the machine was suspended, in which it stands
/// still: others' clocks went on, and so must a lease. It never goes back.
///
/// A machine that its host pauses does not notice: the promises made to it must outlast that (`docs/operating/running.md`).
pub(crate) fn raw() -> Monotonic {
    #[cfg(target_os = "linux")]
    {
        /// The longest that was seen. Read one after the other the two clocks may seem closer together than they are, never
        /// farther apart.
        static SUSPENDED: AtomicU64 = AtomicU64::new(0);
        let with_suspension = nanos_of(libc::CLOCK_BOOTTIME);
        let suspended = with_suspension.saturating_sub(nanos_of(libc::CLOCK_MONOTONIC));
        if suspended > SUSPENDED.load(Ordering::Relaxed) {
            SUSPENDED.fetch_max(suspended, Ordering::Relaxed);
        }
        Monotonic(nanos_of(libc::CLOCK_MONOTONIC_RAW) + SUSPENDED.load(Ordering::Relaxed))
    }
    #[cfg(not(target_os = "linux"))]
    Monotonic(nanos_of(libc::CLOCK_MONOTONIC))
}

/// What a clock of the system shows, in nanoseconds.
fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local of the type that the call writes.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "every supported system has this clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_leases_never_goes_back_and_counts_the_time_in_suspension() {
        let mut last = raw();
        for _ in 0..100_000 {
            let next = raw();
            assert!(next >= last);
            last = next;
        }
        #[cfg(target_os = "linux")]
        {
            let with_suspension = nanos_of(libc::CLOCK_BOOTTIME);
            let suspended = with_suspension.saturating_sub(nanos_of(libc::CLOCK_MONOTONIC));
            let raw_alone = nanos_of(libc::CLOCK_MONOTONIC_RAW);
            // Clocks that are read one after the other differ by the time between.
            assert!(raw().0 + 1_000_000_000 >= raw_alone + suspended);
        }
    }
}

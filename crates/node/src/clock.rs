//! The only readers of clocks that decide what clients see: the wall clock, the one that commands are timed by, and the one
//! that leases are counted by. `unsafe` around a system call.

use ids::{Monotonic, UnixMillis};
use std::sync::LazyLock;
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

/// The raw monotonic clock, which nobody sets or slews.
pub(crate) fn raw() -> Monotonic {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local of the type that the call writes.
    let result = unsafe { libc::clock_gettime(RAW, &raw mut time) };
    assert_eq!(result, 0, "every supported system has this clock");
    Monotonic(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(target_os = "linux")]
const RAW: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
#[cfg(not(target_os = "linux"))]
const RAW: libc::clockid_t = libc::CLOCK_MONOTONIC;

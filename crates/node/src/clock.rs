//! The only readers of clocks that decide what clients see: the wall clock, and the one that commands are timed by.

use ids::UnixMillis;
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

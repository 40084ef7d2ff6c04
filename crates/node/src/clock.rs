//! The only readers of the wall clock.

use ids::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch. A clock set before it reads as the epoch itself.
pub(crate) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

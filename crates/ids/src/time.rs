//! Time as a value.

use std::time::Duration;

/// Milliseconds since the Unix epoch. Signed, because clients may name deadlines before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixMillis(pub i64);

/// Nanoseconds of the raw monotonic clock of one node since an unspecified moment: neither set nor slewed, and comparable
/// only with readings of the same boot. Leases, promises and time-outs are counted by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// This moment and `duration` more.
    pub fn after(self, duration: Duration) -> Monotonic {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Monotonic(self.0.saturating_add(nanos))
    }

    /// How long ago `earlier` was; nothing if it was not.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

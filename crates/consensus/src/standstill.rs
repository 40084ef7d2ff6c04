//! Times in which a process stood still: stopped, starved of its processor, or busy with one thing for long.
//!
//! ```text
//!   looks at the clock   |  |  |                              |  |
//!   heartbeats           ^  ^  ^   ^   ^   ^   ^   ^   ^   ^  these lie in the sockets, unread
//!                              |<------- standstill -------->|
//! ```
//!
//! Whoever goes on looks at the clock before it has read what came meanwhile. By the clock alone every leader has been silent
//! for too long, on all nodes of a machine that was stopped, and all groups elect anew. So a standstill counts as no silence:
//! [`RaftNode::stood_still`](crate::RaftNode::stood_still).

use std::time::Duration;

use ids::Monotonic;

/// Between two looks at the clock, at the latest: owners see to it even if nothing happens.
pub const LOOK: Duration = Duration::from_millis(100);

/// Twice as long as between two looks when nothing happens.
const STANDSTILL_MIN: Duration = LOOK.saturating_mul(2);

/// When its owner looked at the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    last: Option<Monotonic>,
}

impl Looks {
    /// The owner looks at the clock. Answers for how long it stood still, if it did.
    pub fn look(&mut self, now: Monotonic) -> Option<Duration> {
        let last = self.last.replace(now)?;
        let since = now.since(last);
        (since >= STANDSTILL_MIN).then_some(since)
    }

    /// So long after the last look; at once if there was none.
    pub fn after(&self, span: Duration) -> Monotonic {
        self.last.map_or(Monotonic(0), |last| last.after(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_time_never_stood_still() {
        let at = |millis: u64| Monotonic(millis * 1_000_000);
        let mut looks = Looks::default();
        assert_eq!(looks.look(at(5_000)), None, "before it there was nothing");
        assert_eq!(looks.look(at(5_199)), None);
        assert_eq!(looks.after(LOOK), at(5_299));
        assert_eq!(looks.look(at(5_399)), Some(Duration::from_millis(200)));
        assert_eq!(looks.look(at(5_400)), None);
    }
}

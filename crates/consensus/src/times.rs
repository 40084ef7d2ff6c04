//! How long a group waits for what.

use std::time::Duration;

/// The times of a group. All replicas of a group must be given the same, because a leader's lease stands on what its
/// voters promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// How often the owner calls `tick`, at the latest.
    pub tick: Duration,
    /// Between two heartbeats of a pair of nodes, and two attempts to reach a replica.
    pub heartbeat: Duration,
    /// The shortest election time-out: how long a voter keeps its promise.
    pub election_min: Duration,
    /// The longest. A leader that reached no majority for as long stands down.
    pub election_max: Duration,
    /// By how much a lease ends before the promises that it stands on: what two clocks may differ in one shortest
    /// election time-out, both ways together.
    pub drift_margin: Duration,
}

impl Times {
    /// For one rack. The margin bears clocks that are 5 % too fast at one end and 5 % too slow at the other.
    pub const DEFAULT: Times = Times {
        tick: Duration::from_millis(20),
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(400),
        election_max: Duration::from_millis(800),
        drift_margin: Duration::from_millis(40),
    };

    /// Whether a group can live by them.
    pub(crate) fn are_valid(&self) -> bool {
        !self.tick.is_zero()
            && self.tick <= self.heartbeat
            && self.heartbeat * 2 <= self.election_min
            && self.election_min < self.election_max
            && self.drift_margin < self.election_min
    }

    /// How long after a round was sent the lease that it renews ends.
    pub(crate) fn lease(&self) -> Duration {
        self.election_min - self.drift_margin
    }
}

impl Default for Times {
    fn default() -> Times {
        Times::DEFAULT
    }
}

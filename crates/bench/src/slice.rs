//! What was seen in one second: by one thread, or by all of them.

use crate::errors::Errors;
use crate::histogram::Histogram;
use crate::request::{Op, TRIPS_MAX};

/// Kinds of requests that one workload has at most.
const OPS_MAX: usize = 2;

/// What was seen in one second.
#[derive(Clone, Default)]
pub(crate) struct Slice {
    /// Counted from the beginning of what is measured.
    pub(crate) second: u64,
    /// Of the requests that succeeded, in the second in which they ended.
    pub(crate) latencies: Histogram,
    pub(crate) errors: Errors,
    /// By kind of request, in the order of `Shape::ops`, and round trip.
    pub(crate) trips: [[Histogram; TRIPS_MAX]; OPS_MAX],
    /// Keys that were read and not there.
    pub(crate) misses: u64,
    /// `MOVED` and `ASK`.
    pub(crate) redirects: u64,
    pub(crate) connections_lost: u64,
    /// Attempts to connect that failed.
    pub(crate) connects_failed: u64,
    /// When the last request ended, in nanoseconds from the beginning of what is measured.
    pub(crate) last_end: u64,
}

impl Slice {
    /// Adds what another one has counted; its second stays what it is.
    pub(crate) fn add(&mut self, other: &Slice) {
        self.latencies.add(&other.latencies);
        self.errors.add_all(&other.errors);
        for (trip, more) in self.trips.iter_mut().flatten().zip(other.trips.iter().flatten()) {
            trip.add(more);
        }
        self.misses += other.misses;
        self.redirects += other.redirects;
        self.connections_lost += other.connections_lost;
        self.connects_failed += other.connects_failed;
        self.last_end = self.last_end.max(other.last_end);
    }

    /// The place of a kind of request among those of the workload.
    pub(crate) fn place(ops: &[Op], op: Op) -> usize {
        let place = ops.iter().position(|known| *known == op);
        place.expect("requests are drawn from these kinds")
    }
}

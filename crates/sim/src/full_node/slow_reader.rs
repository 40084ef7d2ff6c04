//! Clients that take their replies bit by bit: what they have not taken stays with the node, which stops at its bounds and
//! goes on from there.

use crate::node::Connection;
use ids::Monotonic;
use std::time::Duration;

/// One client in so many reads slowly, and one in so many slower yet. Which endpoint it comes by has nothing to do with it.
const SLOW: u64 = 8;
const SLOWER: u64 = 48;
/// How much such a client reads at a time, and how long it waits then.
const SLOW_READS: (usize, Duration) = (24, Duration::from_millis(3));
const SLOWER_READS: (usize, Duration) = (240, Duration::from_millis(300));
/// After so many bytes it reads whatever there is: sooner or later it has all that was asked for.
const SLOW_BYTES: usize = 2_000;
/// Bytes of replies that a connection gathers on some nodes before it goes on.
pub(crate) const TURN_OUTPUT_BYTES: usize = 40;

/// See the file's header.
pub(crate) struct SlowReader {
    most: usize,
    pause: Duration,
    /// What it may read before it waits again.
    room: usize,
    reads_on: Option<Monotonic>,
    bytes: usize,
}

impl SlowReader {
    /// How the client of this connection reads; `None` of one that reads whatever there is.
    pub(crate) fn of(connection: Connection) -> Option<SlowReader> {
        let (most, pause) = match connection.0 {
            number if number.is_multiple_of(SLOWER) => SLOWER_READS,
            number if number.is_multiple_of(SLOW) => SLOW_READS,
            _ => return None,
        };
        Some(SlowReader {
            most,
            pause,
            room: most,
            reads_on: None,
            bytes: 0,
        })
    }

    /// How many bytes it reads now, at most.
    pub(crate) fn room(&self) -> usize {
        if self.bytes >= SLOW_BYTES {
            usize::MAX
        } else {
            self.room
        }
    }

    /// Whether it reads nothing now.
    pub(crate) fn waits(&self) -> bool {
        self.room() == 0
    }

    pub(crate) fn reads_on(&self) -> Option<Monotonic> {
        self.reads_on
    }

    /// It has read so many bytes.
    pub(crate) fn read(&mut self, bytes: usize, now: Monotonic) {
        self.bytes += bytes;
        self.room = self.room.saturating_sub(bytes);
        if self.bytes < SLOW_BYTES {
            self.reads_on.get_or_insert(now.after(self.pause));
        }
    }

    /// Whether its time to read on has come.
    pub(crate) fn wakes(&mut self, now: Monotonic) -> bool {
        let wakes = self.reads_on.is_some_and(|at| at <= now);
        if wakes {
            self.reads_on = None;
            self.room = self.most;
        }
        wakes
    }
}

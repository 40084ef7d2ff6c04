//! What a replica is told of the world, once a turn of its worker's loop.

use ids::{HashSeed, SemanticsVersion, UnixMillis};
use keyspace::{AccessClock, EventClasses, Header, LfuParameters, Scratch};
use std::time::Duration;

/// One turn of a worker's loop. All that a group is asked to do in one turn goes into one entry.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Counted by the worker.
    pub number: u64,
    /// The wall clock at the turn's beginning.
    pub now: UnixMillis,
    /// Fresh randomness; each group derives its own from it.
    pub seed: u64,
    /// Set if eviction counts frequency.
    pub lfu: Option<LfuParameters>,
    /// The classes of keyspace events that somebody may want to hear of.
    pub notify: EventClasses,
    /// Steps that commands may take at once, or copying their values for a transaction: see [`keyspace::cost`]. What
    /// takes more is carried out elsewhere, on values that are lent.
    pub steps_max: usize,
    /// Bytes of the answers to the reads of one batch, or to what is read at once of groups that are alone:
    /// [`crate::PieceSizes::answers_bytes_max`].
    pub answers_bytes_max: usize,
    /// Whether and how pieces of states are made.
    pub copying: Copying,
    /// The rules that entries made now are to follow: the newest that every node of the cluster knows.
    pub semantics: SemanticsVersion,
    /// Whether values are to be kept as fragments.
    pub coding: Option<CodingRule>,
}

/// How groups are to keep values as fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodingRule {
    /// Bytes of the shortest strings that are.
    pub threshold: u32,
    /// Bytes of settled values that who leads one group may keep whole.
    pub hot_bytes: usize,
    /// How long values stay whole after they were written, at least; and the least time from one walk through all keys to the next.
    pub delay: Duration,
}

/// Pieces of states in one turn, for the disk and for learners. Clients wait while one is made, so a worker rests in between.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    /// Whether one may be made now.
    pub may_copy: bool,
    /// Whether one may be made for a learner: other nodes are to be sent no more than so much.
    pub may_send: bool,
    /// [`crate::PieceSizes::chunk_bytes`].
    pub chunk_bytes: usize,
    /// Nanoseconds since any fixed moment.
    pub clock: fn() -> u64,
}

impl Copying {
    /// Pieces of so many bytes, as soon as anybody wants them.
    pub fn at_once(chunk_bytes: usize) -> Copying {
        Copying {
            may_copy: true,
            may_send: true,
            chunk_bytes,
            clock: || 0,
        }
    }
}

impl Turn {
    /// An empty scratch at `now`, group time.
    pub fn scratch(&self, now: UnixMillis) -> Scratch {
        self.scratch_in(None, now)
    }

    /// The same, in the place of one that was emptied, if there is one.
    pub fn scratch_in(&self, emptied: Option<Scratch>, now: UnixMillis) -> Scratch {
        // Nobody sees the order of keys there: a seed that is no secret will do.
        let mut scratch = emptied.unwrap_or_else(|| Scratch::new(HashSeed([self.seed, !self.seed])));
        let header = Header {
            semantics: SemanticsVersion::CURRENT,
            now,
            seed: self.seed,
        };
        let mut access = AccessClock::new(self.seed);
        access.set(self.now, self.lfu);
        scratch
            .open(&header, access, self.notify)
            .expect("a build knows the rules that it writes");
        scratch.bound_answers(self.answers_bytes_max);
        scratch
    }
}

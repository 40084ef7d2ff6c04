//! The state of a group on its way to a learner, or to the disk, piece by piece.
//!
//! ```text
//!  chunk 0 | chunk 1 | chunk 2 | ...        | last chunk, with its point
//!        at most CHUNKS_MAX not yet taken     then the leader's snapshot message
//! ```
//!
//! Each chunk makes what the learner holds consistent as of the leader's state when it was made; what is written meanwhile
//! comes with the next ([`keyspace::Transfer`]). The last one carries the place in the log from which the learner goes on. The disk is
//! given the same chunks.

use crate::member::Chunk;
use consensus::{Index, SnapshotPoint};
use ids::Monotonic;
use keyspace::{Keyspace, Transfer};
use std::time::Duration;

/// Chunks that were sent and not yet taken. At the limit the transfer waits.
const CHUNKS_MAX: u64 = 4;

/// How long a learner may leave all chunks untaken. Chunks and their answers may be lost without a word: the link was down for a
/// moment, or the learner's node had not yet heard of its replica. Then the transfer begins again. Much longer than a slow link
/// takes for the chunks of all learners that are filled at a time: one that began again too soon would never end.
const STALL: Duration = Duration::from_secs(10);

/// A transfer that is to begin again.
pub(crate) struct Lost;

/// One transfer. See the file's header.
pub(crate) struct SnapshotSender {
    number: u64,
    transfer: Transfer,
    sent: u64,
    taken: u64,
    /// Set with the last chunk.
    point: Option<SnapshotPoint>,
    /// How many chunks were taken when that was last seen to have grown, and when that was.
    progress: Option<(u64, Monotonic)>,
}

impl SnapshotSender {
    /// `None` if there are as many as may be.
    pub(crate) fn begin(number: u64, keyspace: &mut Keyspace) -> Option<SnapshotSender> {
        Some(SnapshotSender {
            number,
            transfer: Transfer::begin(keyspace)?,
            sent: 0,
            taken: 0,
            point: None,
            progress: None,
        })
    }

    /// It is over, whatever became of it.
    pub(crate) fn end(self, keyspace: &mut Keyspace) {
        self.transfer.end(keyspace);
    }

    /// Which transfer this is.
    pub(crate) fn transfer(&self) -> u64 {
        self.number
    }

    /// Whether the next chunk should follow soon.
    pub(crate) fn lags(&self) -> bool {
        self.transfer.lags()
    }

    /// Whether all that there was has been sent, and only what changes is still to follow.
    pub(crate) fn is_ending(&self) -> bool {
        self.point.is_some() || self.transfer.is_ending()
    }

    /// Whether another chunk may be made.
    pub(crate) fn may_send(&self) -> bool {
        self.point.is_none() && self.sent - self.taken < CHUNKS_MAX
    }

    /// What the state reflects that was sent, once all of it was.
    pub(crate) fn point(&self) -> Option<&SnapshotPoint> {
        self.point.as_ref()
    }

    /// The next chunk, of about `chunk_bytes`, if the learner keeps up. `now` is what the state reflects. An error if the
    /// transfer is to begin again: more has changed than could be remembered.
    pub(crate) fn next(
        &mut self,
        keyspace: &mut Keyspace,
        chunk_bytes: usize,
        now: impl FnOnce() -> SnapshotPoint,
    ) -> Result<Option<Chunk>, Lost> {
        if !self.may_send() {
            return Ok(None);
        }
        let bytes = match self.transfer.next_chunk(keyspace, chunk_bytes) {
            keyspace::TransferStep::More(bytes) => bytes,
            keyspace::TransferStep::Last(bytes) => {
                self.point = Some(now());
                bytes
            }
            keyspace::TransferStep::Lost => return Err(Lost),
        };
        let number = self.sent;
        self.sent += 1;
        Ok(Some(Chunk {
            transfer: self.number,
            number,
            point: self.point.as_ref().map(|point| (point.index, point.term)),
            bytes,
        }))
    }

    /// The learner has taken a chunk. With the last one: what its state reflects.
    pub(crate) fn on_taken(&mut self, number: u64) -> Option<SnapshotPoint> {
        if number != self.taken {
            return None;
        }
        self.taken += 1;
        self.point.clone().filter(|_| self.taken == self.sent)
    }

    /// Whether it has stood still for so long that it is to begin again. Where all pieces were taken, the next one is up to this side.
    pub(crate) fn is_stalled(&mut self, now: Monotonic) -> bool {
        if self.sent == self.taken && self.point.is_none() {
            self.progress = None;
        }
        match self.progress {
            Some((taken, since)) if taken == self.taken => now.since(since) >= STALL,
            _ => {
                self.progress = Some((self.taken, now));
                false
            }
        }
    }

    /// The place behind which the log is still needed for the learner.
    pub(crate) fn held(&self) -> Option<Index> {
        self.point.as_ref().map(|point| point.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{HashSeed, PartitionCount, PartitionRange};

    #[test]
    fn a_transfer_of_which_nothing_is_taken_for_long_is_to_begin_again() {
        let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::all(PartitionCount::DEFAULT));
        let mut snapshot_sender = SnapshotSender::begin(1, &mut keyspace).expect("it is the first one");
        let begin = Monotonic(1_000_000_000);
        let later = |since: Monotonic| since.after(STALL);
        assert!(!snapshot_sender.is_stalled(begin));
        let point = || SnapshotPoint {
            index: Index(7),
            term: consensus::Term(1),
            members: consensus::Members::of_voters([ids::Incarnation(1)]),
        };
        let chunk = snapshot_sender.next(&mut keyspace, 1_000, point);
        assert!(matches!(chunk, Ok(Some(chunk)) if chunk.number == 0));
        assert!(snapshot_sender.is_stalled(later(begin)));
        snapshot_sender.on_taken(0);
        assert!(
            !snapshot_sender.is_stalled(later(begin)),
            "something was taken meanwhile"
        );
        assert!(snapshot_sender.is_stalled(later(later(begin))));
    }
}

//! A copy of all objects as of one command: of `BACKUP MARK`.
//!
//! ```text
//!   begin --next: More--> under way --next: Ready--> ready --BACKUP MARK is applied--> marked --next: Last--> over
//!                             ^                        |  something changes
//!                             +------------------------+
//! ```
//!
//! Until the mark it is a transfer (`transfer.rs`) that never ends: the receiver has a prefix of the objects, and what changed
//! of it follows. When the mark is applied, in the middle of an entry, the rest is written down at once: what the entry goes on
//! to do is not in it. The mark locks the group alone, so that it meets no transaction half done.
//!
//! It is no state: whether a replica copies its objects makes no difference to what it answers.

use crate::keyspace::Keyspace;
use crate::transfer::{ObjectsStep, Transfer};

/// One copy of a keyspace. See the file's header.
#[derive(Debug)]
pub(crate) struct ObjectCopy {
    id: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    UnderWay(Transfer),
    Marked(Vec<u8>),
    Lost,
}

/// What comes next of a copy.
#[derive(Debug)]
pub enum CopyStep {
    /// This chunk ([`read_records`](crate::read_records)).
    More(Vec<u8>),
    /// Nothing, until something changes or the mark is applied.
    Ready,
    /// Nothing: values that are to be copied are gathered first, where they are kept as fragments.
    NotYet,
    /// This chunk, and with it the receiver has the objects as the mark has found them. The copy is over.
    Last(Vec<u8>),
    /// Nothing: there is no such copy any more. Too much has changed, or the state was replaced.
    Lost,
}

impl Keyspace {
    /// Begins to copy all objects, for this mark; one that was under way ends. `false` if there are as many transfers as may be.
    pub fn begin_copy(&mut self, id: u64) -> bool {
        self.end_copy();
        let transfer = Transfer::begin_hosted(self);
        self.copy = transfer.map(|transfer| ObjectCopy {
            id,
            phase: Phase::UnderWay(transfer),
        });
        self.copy.is_some()
    }

    /// What comes next of the copy for this mark, of about `bytes_max` bytes if it is not the last chunk.
    pub fn next_of_copy(&mut self, id: u64, bytes_max: usize) -> CopyStep {
        let Some(mut copy) = self.copy.take_if(|copy| copy.id == id) else {
            return CopyStep::Lost;
        };
        match &mut copy.phase {
            Phase::UnderWay(transfer) => match transfer.next_objects(self, bytes_max) {
                ObjectsStep::More(chunk) => {
                    self.copy = Some(copy);
                    CopyStep::More(chunk)
                }
                ObjectsStep::Ready => {
                    self.copy = Some(copy);
                    CopyStep::Ready
                }
                ObjectsStep::Lost => CopyStep::Lost,
            },
            Phase::Marked(last) => CopyStep::Last(std::mem::take(last)),
            Phase::Lost => CopyStep::Lost,
        }
    }

    /// Whether more has changed than the newest chunk of the copy for this mark could carry.
    pub fn copy_lags(&self, id: u64) -> bool {
        let copy = self.copy.as_ref().filter(|copy| copy.id == id);
        copy.is_some_and(|copy| matches!(&copy.phase, Phase::UnderWay(transfer) if transfer.lags()))
    }

    /// Whether the copy for this mark has passed the mark, or is lost.
    pub fn is_copy_over(&self, id: u64) -> bool {
        let copy = self.copy.as_ref().filter(|copy| copy.id == id);
        copy.is_none_or(|copy| !matches!(copy.phase, Phase::UnderWay(_)))
    }

    /// Ends the copy under way, if there is one.
    pub fn end_copy(&mut self) {
        if let Some(ObjectCopy {
            phase: Phase::UnderWay(transfer),
            ..
        }) = self.copy.take()
        {
            transfer.end(self);
        }
    }

    /// The mark is applied: what is copied for it is what is here now.
    pub(crate) fn mark_copy(&mut self, id: u64) {
        let Some(mut copy) = self.copy.take_if(|copy| copy.id == id) else {
            return;
        };
        if let Phase::UnderWay(transfer) = copy.phase {
            copy.phase = transfer.last_objects(self).map_or(Phase::Lost, Phase::Marked);
        }
        self.copy = Some(copy);
    }
}

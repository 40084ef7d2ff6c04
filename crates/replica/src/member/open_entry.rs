//! The entry that a member makes while it is applied: of a group that is alone and has a log.
//!
//! ```text
//!   None --a command, applied at once--> Open --proposed, on its way to the disk--> Closed --committed--> None
//! ```
//!
//! Whoever leads alone has nobody to agree with. So the state is ahead of the log from the first command on until the entry is kept, and
//! what follows from it is told to nobody before that. The rest of a turn's work, which is gathered, goes into entries behind it.
//!
//! Applied like that or from the log, by a replica that starts or by one that joins later: the outcome is the same, as the inputs are the
//! state and the entry. Its operations are in a batch of the leader's own, since nobody sends any of them twice.

use consensus::{Index, Term};
use keyspace::{BlockCommand, EntryBuf, EntryOperation, Header, OperationsMark};

/// Bytes that room is made for when an entry is opened, at most: what the last one held.
const ROOM_BYTES_MAX: usize = 16 * 1024;

/// See the file's header.
#[derive(Default)]
pub(super) struct OpenEntry {
    stage: Stage,
    /// Bytes that the last one held.
    room: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    Open(EntryBuf),
    Closed(Index, Term),
}

impl OpenEntry {
    /// Whether there is none, open or on its way.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        matches!(self.stage, Stage::None)
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Where it stands in the log, once it is closed.
    pub(super) fn closed(&self) -> Option<(Index, Term)> {
        match self.stage {
            Stage::Closed(index, term) => Some((index, term)),
            Stage::None | Stage::Open(_) => None,
        }
    }

    /// Begins one: there is none.
    pub(super) fn open(&mut self, header: &Header) {
        let mut entry = EntryBuf::with_room(header, 1, self.room.min(ROOM_BYTES_MAX));
        entry.begin_own_batch();
        self.stage = Stage::Open(entry);
    }

    /// Adds a command that is applied now.
    #[inline]
    pub(super) fn push(&mut self, command: &BlockCommand<'_>) {
        let Stage::Open(entry) = &mut self.stage else {
            unreachable!("it was opened for its first command");
        };
        let &BlockCommand { db, protocol, args } = command;
        entry.push(&EntryOperation::Command { db, protocol, args });
    }

    /// Where what was added by now ends, if one is open.
    pub(super) fn mark(&self) -> Option<OperationsMark> {
        match &self.stage {
            Stage::Open(entry) => Some(entry.mark()),
            Stage::None | Stage::Closed(..) => None,
        }
    }

    /// Takes back what was added since a mark of the one that is open.
    pub(super) fn cut(&mut self, mark: OperationsMark) {
        if let Stage::Open(entry) = &mut self.stage {
            entry.cut(mark);
        }
    }

    /// Takes it out, to be proposed, if one is open.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if !self.is_open() {
            return None;
        }
        let Stage::Open(entry) = std::mem::take(&mut self.stage) else {
            unreachable!("it was looked at above");
        };
        let mut bytes = entry.finish();
        self.room = bytes.len();
        // The log keeps it for a while.
        if bytes.capacity() > bytes.len() * 2 {
            bytes.shrink_to_fit();
        }
        Some(bytes)
    }

    /// It was proposed, and stands there.
    pub(super) fn close(&mut self, index: Index, term: Term) {
        self.stage = Stage::Closed(index, term);
    }

    /// Whether what is committed at this place is it, which is then over.
    pub(super) fn is_committed(&mut self, index: Index, term: Term) -> bool {
        let is_it = self.closed() == Some((index, term));
        if is_it {
            self.stage = Stage::None;
        }
        is_it
    }
}

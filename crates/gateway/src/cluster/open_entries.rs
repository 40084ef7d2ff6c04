//! The entries of this worker's groups that are open: commands of groups that are alone here were applied, and their entries are proposed
//! when the turn ends.
//!
//! ```text
//!   the disk has room --promise--> commands are applied --close--> proposed, on their way to the disk --> kept, as was promised
//! ```
//!
//! A command that is applied cannot wait for room, nor be refused. So the disk is asked before, once a turn, for how many bytes it will
//! acknowledge at once when they are written next. What is more, and all else, is gathered as ever.
//!
//! Invariant: what is in open entries takes no more than what was promised.

/// Bytes that an entry takes beside its commands, at most: its head, and those of its record.
const ENTRY_BYTES: usize = 512;

/// See the file's header.
#[derive(Default)]
pub(super) struct OpenEntries {
    /// Bytes of what was promised that are left.
    promised: usize,
    /// Whether anything was promised for this turn.
    is_promised: bool,
    /// Whether the entries of this turn are closed: what was promised and is left, is left to nobody.
    is_over: bool,
    /// The groups with an entry that is open, by index, and those whose entries were closed last.
    groups: Vec<usize>,
    closed: Vec<usize>,
    /// The turn in which the first one was opened.
    since: u64,
}

impl OpenEntries {
    /// So many bytes are acknowledged at once when they are written next.
    pub(super) fn promise(&mut self, bytes: usize) {
        self.promised = bytes;
        (self.is_promised, self.is_over) = (bytes > 0, false);
    }

    /// Whether any more may be applied.
    #[inline]
    pub(super) fn may_grow(&self) -> bool {
        self.promised > 0
    }

    /// Whether more may be applied in the next turn, and in this one no longer.
    #[inline]
    pub(super) fn may_soon(&self) -> bool {
        self.is_promised && self.is_over
    }

    /// Takes so many bytes for a command, if they are left; and for an entry that is opened for it, if it is.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize, is_first: bool) -> bool {
        let bytes = bytes + if is_first { ENTRY_BYTES } else { 0 };
        let is_left = bytes <= self.promised;
        if is_left {
            self.promised -= bytes;
        }
        is_left
    }

    /// An entry is opened.
    pub(super) fn opened(&mut self, index: usize, turn: u64) {
        if self.groups.is_empty() {
            self.since = turn;
        }
        self.groups.push(index);
    }

    /// The turn in which the first one was opened.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// The groups whose entries are closed now. Until something is promised again nothing more is applied first.
    pub(super) fn close(&mut self) {
        self.promised = 0;
        self.is_over = true;
        std::mem::swap(&mut self.groups, &mut self.closed);
        self.groups.clear();
    }

    /// Those that were closed last, by their number.
    pub(super) fn closed(&self, number: usize) -> Option<usize> {
        self.closed.get(number).copied()
    }

    /// All that may not be kept.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().chain(&self.closed).copied()
    }
}

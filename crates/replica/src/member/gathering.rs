//! What a leader has been sent, and has not proposed.
//!
//! What is committed and waited for by nobody is *kept*: it goes first in the next entry, whatever that is made for. An entry is
//! made for it alone if somebody waits for what it unlocks, or after [`KEPT_MAX`].
//!
//! Invariants:
//! 1. Reads that wait for gathered batches, or for what the leader itself asks for, stand among these, in order, and so do the
//!    places at which entries end.
//! 2. The bytes of what is gathered are counted.

use super::Sender;
use super::unconfirmed::Unconfirmed;
use crate::batch::Batch;
use crate::state::GroupState;
use bytes::Bytes;
use ids::Monotonic;
use keyspace::{EntryBuf, EntryOperation, Header, Operations};
use std::collections::VecDeque;
use std::time::Duration;
use txn::TxnId;

/// Bytes of operations in one entry. What is more goes into the next; one batch always fits.
const GATHERED_BYTES_MAX: usize = 1024 * 1024;

/// How long decisions that nobody waits for may be kept before an entry is made for them: the one exception to the rule that
/// no timer waits for more to come.
const KEPT_MAX: Duration = Duration::from_millis(1);

/// A batch, and who is answered for it.
pub(super) struct Gathered {
    pub(super) sender: Sender,
    pub(super) batch: Batch,
    /// Whether it is answered by group time: of reads that found a key to have expired by the clock, behind the entry that says so.
    pub(super) by_group_time: bool,
}

/// Decisions that nobody waited for when they came.
struct Kept {
    gathered: Gathered,
    txns: Vec<TxnId>,
}

/// See the file's header.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) batches: Vec<Gathered>,
    pub(super) bytes: usize,
    /// What goes first in the next entry.
    kept: Vec<Kept>,
    /// When an entry is made for it alone.
    kept_until: Monotonic,
    /// Whether that is so now.
    is_kept_due: bool,
    /// Batches of reads alone that came behind what is gathered, each with the number of gathered batches before it.
    attached: Vec<(usize, Gathered)>,
    /// Numbers of gathered batches at which an entry ends, ascending: the next batch is of a gateway whose reads are attached
    /// before it, and they must not see it.
    pub(super) barriers: VecDeque<usize>,
    /// What the leader itself asks for: expired keys, limits, fences.
    pub(super) own: Operations,
    /// Of a group whose values are kept as fragments, how many of the batches were looked at and may be proposed; of others all may.
    looked_at: Option<usize>,
    /// Whether any of these may give a value another name.
    renames: bool,
    /// Whether none is added to these before they are proposed.
    ends_here: bool,
    /// Batches that have come.
    taken: u64,
}

/// What may be the next entry.
pub(super) struct Next {
    pub(super) entry: Bytes,
    /// How many of the gathered batches are in it, and their bytes.
    pub(super) batches: (usize, usize),
}

impl Gathering {
    /// Says which invariant does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let bytes: usize = self
            .batches
            .iter()
            .map(|gathered| gathered.batch.byte_len())
            .sum();
        let stands = |at: usize| (1..=self.batches.len()).contains(&at);
        // What the leader itself asks for goes first, and reads may wait for it alone.
        let waits = |at: usize| stands(at) || at == 0 && self.has_own();
        let reads: Vec<usize> = self.attached.iter().map(|(at, _)| *at).collect();
        let ends = &self.barriers;
        let are_placed = reads.is_sorted() && reads.iter().all(|at| waits(*at));
        let are_ends = ends.iter().is_sorted_by(|a, b| a < b) && ends.iter().all(|at| waits(*at));
        if bytes == self.bytes && are_placed && are_ends {
            return Ok(());
        }
        let gathered = (self.batches.len(), self.bytes);
        Err(format!(
            "{gathered:?} gathered, of {bytes} bytes; reads {reads:?}, ends {ends:?}"
        ))
    }

    /// How many batches are here.
    pub(super) fn len(&self) -> usize {
        self.batches.len() + self.kept.len() + self.attached.len()
    }

    /// Whether there is anything that the leader itself asks for.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether the next entry would hold writes that nobody may pass.
    pub(super) fn has_writes(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Asks for an operation of the leader's own.
    pub(super) fn ask(&mut self, operation: &EntryOperation<'_>) {
        self.own.push(operation);
    }

    /// Says whether batches are to be looked at before they are proposed.
    pub(super) fn begin_looking(&mut self, looks: bool) {
        match looks {
            true => _ = self.looked_at.get_or_insert(0),
            false => self.looked_at = None,
        }
    }

    /// What follows from entries that are about to be proposed is not what it was: batches that were not proposed are looked at again.
    pub(super) fn look_again(&mut self) {
        if let Some(looked_at) = &mut self.looked_at {
            *looked_at = 0;
        }
        (self.renames, self.ends_here) = (false, false);
    }

    /// The first that was not looked at.
    pub(super) fn next_to_look_at(&self) -> Option<&Gathered> {
        self.batches.get(self.looked_at?).filter(|_| !self.ends_here)
    }

    /// It may be proposed.
    pub(super) fn looked_at(&mut self, renames: bool) {
        if let Some(looked_at) = &mut self.looked_at {
            *looked_at += 1;
        }
        self.renames |= renames;
    }

    /// None of those behind it is for the same entry.
    pub(super) fn end_here(&mut self) {
        self.ends_here = true;
    }

    /// Whether the first has to wait for a read of its gateway.
    pub(super) fn is_behind_read(&self, reads: &Unconfirmed) -> bool {
        let first = self.batches.first();
        self.barriers.front() == Some(&0) || first.is_some_and(|first| reads.has_read_of(first.sender))
    }

    pub(super) fn has_looked_at(&self) -> bool {
        self.looked_at.is_some_and(|looked_at| looked_at > 0)
    }

    pub(super) fn renames(&self) -> bool {
        self.renames
    }

    /// Batches that have come since this leader began.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// How many of them were proposed.
    pub(super) fn proposed(&self) -> u64 {
        self.taken - self.batches.len() as u64
    }

    /// Takes a batch with writes.
    pub(super) fn gather(&mut self, gathered: Gathered) {
        self.taken += 1;
        let last = self.barriers.back().copied();
        let is_behind = |at: usize| last.is_none_or(|last| at > last);
        let mut behind = self.attached.iter().rev().take_while(|(at, _)| is_behind(*at));
        if behind.any(|(_, read)| read.sender == gathered.sender) {
            self.barriers.push_back(self.batches.len());
        }
        self.bytes += gathered.batch.byte_len();
        self.batches.push(gathered);
    }

    /// Takes a batch of reads alone, behind what is gathered.
    pub(super) fn attach(&mut self, reads: Gathered) {
        self.attached.push((self.batches.len(), reads));
    }

    /// Takes decisions that nobody waits for, on these transactions.
    pub(super) fn keep(&mut self, now: Monotonic, gathered: Gathered, txns: Vec<TxnId>) {
        if self.kept.is_empty() {
            self.kept_until = now.after(KEPT_MAX);
        }
        self.kept.push(Kept { gathered, txns });
    }

    /// Until when decisions are kept, if there are any.
    pub(super) fn kept_until(&self) -> Option<Monotonic> {
        self.has_kept().then_some(self.kept_until)
    }

    /// Whether an entry is to be made for what is kept.
    pub(super) fn is_kept_awaited(&self, state: &GroupState, now: Monotonic) -> bool {
        let txns = || self.kept.iter().flat_map(|kept| &kept.txns).copied();
        self.has_kept() && (now >= self.kept_until || state.is_any_awaited(txns()))
    }

    /// Makes up its mind on that.
    pub(super) fn look_at_kept(&mut self, state: &GroupState, now: Monotonic) {
        self.is_kept_due = self.is_kept_awaited(state, now);
    }

    /// Bytes of gathered batches that one entry may hold.
    pub(super) fn next_bytes(&self) -> usize {
        self.bytes.min(GATHERED_BYTES_MAX)
    }

    /// How many of the gathered batches may be in the next entry: none that stands behind a read of the same gateway, which
    /// must not see it.
    fn proposable(&self, reads: &Unconfirmed) -> usize {
        let count = self.barriers.front().copied().unwrap_or(self.batches.len());
        let count = count.min(self.looked_at.unwrap_or(count));
        if reads.len() == 0 {
            return count;
        }
        // What came behind gathered batches is attached: those that are there came before them.
        let mut next = self.batches[..count].iter();
        next.position(|batch| reads.has_read_of(batch.sender))
            .unwrap_or(count)
    }

    /// Whether there is anything to make an entry of.
    pub(super) fn has_next(&self, reads: &Unconfirmed) -> bool {
        self.is_kept_due || self.has_own() || self.proposable(reads) > 0
    }

    /// What may be the next entry.
    pub(super) fn next(&self, header: &Header, reads: &Unconfirmed) -> Next {
        let kept_bytes: usize = self
            .kept
            .iter()
            .map(|kept| kept.gathered.batch.writes.len())
            .sum();
        let writes = self.batches.iter().map(|gathered| gathered.batch.writes.len());
        let room = writes.sum::<usize>().min(GATHERED_BYTES_MAX) + self.own.bytes().len() + kept_bytes;
        let batches = self.batches.len() + self.kept.len() + 1;
        let mut entry = EntryBuf::with_room(header, batches, room);
        if self.has_own() {
            entry.begin_own_batch();
            entry.append(self.own.bytes());
        }
        // Before what may wait for them: they need not wait then.
        for Kept { gathered, .. } in &self.kept {
            entry.begin_unnumbered_batch(gathered.sender.gateway);
            entry.append(&gathered.batch.writes);
        }
        let (mut bytes, mut count) = (0, 0);
        for Gathered { sender, batch, .. } in &self.batches[..self.proposable(reads)] {
            if count > 0 && bytes + batch.byte_len() > GATHERED_BYTES_MAX {
                break;
            }
            bytes += batch.byte_len();
            count += 1;
            match batch.number {
                // Reads alone.
                0 => entry.begin_unnumbered_batch(sender.gateway),
                number => entry.begin_batch(sender.gateway, number, batch.acknowledged),
            }
            entry.append(&batch.writes);
        }
        Next {
            entry: Bytes::from(entry.finish()),
            batches: (count, bytes),
        }
    }

    /// What was next is proposed: hands out its batches, in order, the reads alone that came behind them, and whether any of them may give
    /// a value another name.
    pub(super) fn take(&mut self, (count, bytes): (usize, usize)) -> (Vec<Gathered>, Vec<Gathered>, bool) {
        let renames = self.renames;
        // What was asked for on behalf of those that stay is in this entry, and one behind it may undo it.
        self.look_again();
        self.own = Operations::new();
        self.bytes -= bytes;
        self.is_kept_due = false;
        let kept = self.kept.drain(..).map(|kept| kept.gathered);
        let batches = kept.chain(self.batches.drain(..count)).collect();
        let attached = self.attached.extract_if(.., |(at, _)| *at <= count);
        let attached = attached.map(|(_, read)| read).collect();
        let reads = self.attached.iter_mut().map(|(at, _)| at);
        reads.chain(&mut self.barriers).for_each(|at| *at -= count);
        self.barriers.pop_front_if(|at| *at == 0);
        (batches, attached, renames)
    }

    /// Hands out all batches: this replica does not lead any more.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Gathered> {
        let all = std::mem::take(self);
        let kept = all.kept.into_iter().map(|kept| kept.gathered);
        let attached = all.attached.into_iter().map(|(_, read)| read);
        kept.chain(all.batches).chain(attached)
    }
}

//! One stream: its entries in blocks, how many it ever had, and its groups.
//!
//! ```text
//!   blocks    base 5-0: [5-0 5-1 .. 6-3]   base 6-9: [6-9 .. 8-0]   base 9-0: [9-0 ..]   a tree, by base
//!                                                                             ^ the only one that grows
//! ```
//!
//! Ids only grow, so that a new entry goes into the last block, or begins one. Which entries are in a block follows from the
//! commands and the limits of the group: replicas agree on it, and an approximate trim removes the same ones on all.
//!
//! Invariants, as [`Stream::check`] looks at them:
//! 1. No block is empty. The ids of a block are from its base to its last one, and below the base of the next one.
//! 2. `len` is how many entries there are, and `memory` what blocks and groups take.
//! 3. No entry is above the last id.
//! 4. Those of `group.rs`.

use super::block::{Block, StreamEntry};
use super::group::Group;
use crate::limits::EncodingLimits;
use command::{NewId, ReadFrom, ReplyError, Trim, TrimBound};
use ids::{StreamId, UnixMillis};
use resp::Args;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of an entry's fields: Redis takes no more.
pub(super) const ENTRY_BYTES_MAX: usize = 1 << 30;

/// About how many bytes the place of a block in the tree takes.
const BLOCK_PLACE_BYTES: usize = 112;

/// How many entries an approximate trim looks at, in blocks, if it is not told.
const TRIMMED_BLOCKS: u64 = 100;

/// The same in entries, where the entries of blocks are not counted; and never more than these.
const TRIMMED_ENTRIES: u64 = 10_000;
const TRIMMED_ENTRIES_MAX: u64 = 1_000_000;

/// See the file's header.
#[derive(Clone, Default)]
pub struct Stream {
    /// Shared with copies of the stream until one of them changes: what is tried out on a copy costs no more than the blocks
    /// it touches.
    blocks: BTreeMap<StreamId, Arc<Block>>,
    len: usize,
    /// The id of the entry that was added last, or what `XSETID` made it.
    pub(super) last_id: StreamId,
    /// The highest id of an entry that `XDEL` removed.
    pub(super) max_deleted: StreamId,
    /// How many entries were ever added.
    pub(super) added: u64,
    groups: BTreeMap<Box<[u8]>, Group>,
    memory: usize,
}

/// How far a stream has come: what the counters of groups are made from.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) len: usize,
    pub(super) first_id: StreamId,
    pub(super) last_id: StreamId,
    pub(super) max_deleted: StreamId,
    pub(super) added: u64,
}

impl Extent {
    /// Whether an entry at or above this id may have been removed from the middle. Below the first entry there is no middle.
    pub(super) fn has_gap_from(&self, id: StreamId) -> bool {
        self.len > 0 && self.first_id <= self.max_deleted && id <= self.max_deleted
    }

    /// How many entries there ever were up to this id, if that can be told.
    pub(super) fn rank_of(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.added);
        }
        if id >= self.last_id {
            // Of what is above nothing is known.
            return (id == self.last_id).then_some(self.added);
        }
        let has_gap = self.max_deleted != StreamId::MIN && self.max_deleted >= self.first_id;
        let before_first = self.added.saturating_sub(self.len as u64);
        match id.cmp(&self.first_id) {
            _ if has_gap => None,
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// How many entries a group has not read, if that can be told.
    pub(super) fn lag(&self, group: &Group) -> Option<i64> {
        let read = match group.entries_read {
            _ if self.added == 0 => return Some(0),
            Some(read) if !self.has_gap_from(group.last_id) => read,
            _ => self.rank_of(group.last_id)?,
        };
        Some(self.added.wrapping_sub(read) as i64)
    }
}

impl Stream {
    /// Says which invariant does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut before = None;
        for (base, block) in &self.blocks {
            let mut ids = block.entries(*base).map(|entry| entry.id).peekable();
            let first = *ids.peek().ok_or("invariant 1: an empty block")?;
            let is_behind = before.is_none_or(|before| before < *base);
            if !is_behind || first < *base || !ids.is_sorted_by(|a, b| a < b) || block.last() < first {
                return Err(format!("invariant 1: the block of {base}"));
            }
            before = Some(block.last());
        }
        let len: usize = self.blocks.values().map(|block| block.live()).sum();
        if (len, self.counted_memory()) != (self.len, self.memory) {
            return Err(format!("invariant 2: {len} entries, {} counted", self.len));
        }
        if before.is_some_and(|last| last > self.last_id) {
            return Err(format!("invariant 3: {}", self.last_id));
        }
        self.groups.values().try_for_each(Group::check)
    }

    fn counted_memory(&self) -> usize {
        let blocks = self
            .blocks
            .values()
            .map(|block| block.memory() + BLOCK_PLACE_BYTES);
        let groups = self.groups.iter().map(|(name, group)| group.memory(name));
        blocks.chain(groups).sum()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many blocks they are in.
    pub(super) fn blocks_len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of everything, in constant time.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The id of the entry that was added last.
    pub(crate) fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<StreamEntry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX).next()
    }

    /// The last one that is there.
    pub(super) fn last(&self) -> Option<StreamEntry<'_>> {
        let (base, block) = self.blocks.last_key_value()?;
        block.entries(*base).last()
    }

    /// How far it has come.
    pub(super) fn extent(&self) -> Extent {
        Extent {
            len: self.len,
            first_id: self.first().map_or(StreamId::MIN, |entry| entry.id),
            last_id: self.last_id,
            max_deleted: self.max_deleted,
            added: self.added,
        }
    }

    /// The block in which this id would be, or the first one.
    fn base_for(&self, id: StreamId) -> Option<StreamId> {
        let below = self.blocks.range(..=id).next_back();
        below
            .or_else(|| self.blocks.first_key_value())
            .map(|(base, _)| *base)
    }

    /// Sets the last id, which is not below that of any entry that is there.
    pub(super) fn set_last_id(&mut self, id: StreamId) {
        self.last_id = id;
        if let Some(mut last) = self.blocks.last_entry()
            && last.get().last() > id
        {
            Arc::make_mut(last.get_mut()).lower_last(id);
        }
    }

    /// The block in which this id would be, or the first one, with its base.
    pub(super) fn block_for(&self, id: StreamId) -> Option<(StreamId, &Block)> {
        self.blocks_from(self.base_for(id)?).next()
    }

    /// The blocks from this base on.
    pub(super) fn blocks_from(&self, base: StreamId) -> impl Iterator<Item = (StreamId, &Block)> {
        self.blocks.range(base..).map(|(base, block)| (*base, &**block))
    }

    /// The entries from `start` to `end`, both included.
    pub(crate) fn range(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        let base = self.base_for(start).unwrap_or(StreamId::MAX);
        self.blocks
            .range(base..)
            .flat_map(|(base, block)| block.entries(*base))
            .skip_while(move |entry| entry.id < start)
            .take_while(move |entry| entry.id <= end)
    }

    /// The same from the end on.
    pub(super) fn range_back(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        self.blocks
            .range(..=end)
            .rev()
            .flat_map(|(base, block)| {
                let entries: Vec<StreamEntry<'_>> = block.entries(*base).collect();
                entries.into_iter().rev()
            })
            .skip_while(move |entry| entry.id > end)
            .take_while(move |entry| entry.id >= start)
    }

    /// How many entries there are from `start` to `end`; no more than `most`.
    pub(super) fn count(&self, start: StreamId, end: StreamId, most: usize) -> usize {
        let Some(first) = self.base_for(start) else {
            return 0;
        };
        let mut count = 0;
        for (base, block) in self.blocks.range(first..) {
            if count >= most || *base > end {
                break;
            }
            count += if start <= *base && block.last() <= end {
                block.live()
            } else {
                let inside = |entry: &StreamEntry<'_>| (start..=end).contains(&entry.id);
                block.entries(*base).filter(inside).count()
            };
        }
        count.min(most)
    }

    /// About how many entries a read from there tells, of which so many are told at most: what is looked at to find out is
    /// bounded by what a read of as many looks at.
    pub(crate) fn count_to_read(&self, from: ReadFrom, group: Option<&[u8]>, most: usize) -> usize {
        let group = group.map(|name| self.group(name));
        let behind = match (from, group) {
            (_, Some(None)) | (ReadFrom::Last, _) => return 0,
            (ReadFrom::New, Some(Some(group))) => group.last_id,
            (ReadFrom::New, None) => return 0,
            (ReadFrom::After(_), Some(Some(group))) => return group.pending_len().min(most),
            (ReadFrom::After(id), None) => id,
        };
        match behind.next() {
            Some(start) if start <= self.last_id() => self.count(start, StreamId::MAX, most),
            _ => 0,
        }
    }

    /// The entry of this id.
    pub(crate) fn find(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        let (base, block) = self.blocks.range(..=id).next_back()?;
        let mut entries = block.entries(*base).skip_while(|entry| entry.id < id);
        entries.next().filter(|entry| entry.id == id)
    }

    /// The id that the next entry gets.
    fn next_id(&self, wanted: NewId, now: UnixMillis) -> Result<StreamId, ReplyError> {
        let last = self.last_id;
        if last == StreamId::MAX {
            return Err(ReplyError::StreamIdsExhausted);
        }
        let id = match wanted {
            NewId::Exactly(id) => Some(id),
            NewId::Of { ms } if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)),
            NewId::Of { ms } => Some(StreamId::new(ms, 0)),
            NewId::Now => {
                let now = u64::try_from(now.0).unwrap_or(0);
                if now > last.ms {
                    Some(StreamId::new(now, 0))
                } else {
                    last.next()
                }
            }
        };
        id.filter(|id| *id > last).ok_or(ReplyError::StreamIdNotAbove)
    }

    /// Adds an entry. Its id.
    pub(super) fn add(
        &mut self,
        wanted: NewId,
        now: UnixMillis,
        fields: Args<'_>,
        limits: &EncodingLimits,
    ) -> Result<StreamId, ReplyError> {
        let id = self.next_id(wanted, now)?;
        let bytes = fields.byte_len();
        if bytes > ENTRY_BYTES_MAX {
            return Err(ReplyError::StreamEntryTooLarge);
        }
        let most = (limits.stream_node_bytes, limits.stream_node_entries);
        let begins = match self.blocks.last_entry() {
            Some(mut last) => {
                let base = *last.key();
                let block = Arc::make_mut(last.get_mut());
                let before = block.memory();
                let is_full = block.is_full(base, id, bytes, most);
                if is_full {
                    block.close();
                } else {
                    block.push(base, id, fields);
                }
                self.memory = self.memory - before + block.memory();
                is_full
            }
            None => true,
        };
        if begins {
            let mut block = Block::begin(id, fields);
            block.push(id, id, fields);
            self.memory += block.memory() + BLOCK_PLACE_BYTES;
            self.blocks.insert(id, Arc::new(block));
        }
        self.len += 1;
        self.added = self.added.wrapping_add(1);
        self.last_id = id;
        Ok(id)
    }

    /// Adds a block that another replica has sent; `None` if it does not follow those that are there.
    pub(super) fn add_block(&mut self, base: StreamId, block: Block) -> Option<()> {
        let is_behind = self
            .blocks
            .last_key_value()
            .is_none_or(|(_, before)| before.last() < base);
        if !is_behind || block.last() > self.last_id {
            return None;
        }
        self.len += block.live();
        self.memory += block.memory() + BLOCK_PLACE_BYTES;
        self.blocks.insert(base, Arc::new(block));
        Some(())
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        let Some((&base, block)) = self.blocks.range_mut(..=id).next_back() else {
            return false;
        };
        if block.last() < id {
            return false;
        }
        let block = Arc::make_mut(block);
        if !block.remove(base, id) {
            return false;
        }
        if block.live() == 0 {
            self.memory -= block.memory() + BLOCK_PLACE_BYTES;
            self.blocks.remove(&base);
        }
        self.len -= 1;
        self.max_deleted = self.max_deleted.max(id);
        true
    }

    /// Removes what is not to stay of the beginning. How many entries that was.
    pub(super) fn trim(&mut self, trim: Trim, limits: &EncodingLimits) -> usize {
        let limit = match trim.limit {
            _ if !trim.is_approximate => 0,
            Some(limit) => limit,
            None if limits.stream_node_entries == 0 => TRIMMED_ENTRIES,
            None => (TRIMMED_BLOCKS * u64::from(limits.stream_node_entries)).min(TRIMMED_ENTRIES_MAX),
        };
        let limit = match usize::try_from(limit) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(limit) => limit,
        };
        let mut removed = 0;
        while let Some(mut first) = self.blocks.first_entry() {
            let base = *first.key();
            let block = first.get();
            let newest = match trim.keeps {
                TrimBound::Newest(newest) => Some(usize::try_from(newest).unwrap_or(usize::MAX)),
                TrimBound::From(_) => None,
            };
            if newest.is_some_and(|newest| self.len <= newest) || removed + block.live() > limit {
                break;
            }
            let goes_whole = match trim.keeps {
                TrimBound::Newest(_) => newest.is_some_and(|newest| self.len - block.live() >= newest),
                TrimBound::From(id) => block.last() < id,
            };
            if goes_whole {
                let block = first.remove();
                self.memory -= block.memory() + BLOCK_PLACE_BYTES;
                self.len -= block.live();
                removed += block.live();
                continue;
            }
            if trim.is_approximate {
                break;
            }
            let len = self.len;
            let block = Arc::make_mut(first.get_mut());
            let count = block.remove_first(base, |entry, gone| match trim.keeps {
                TrimBound::Newest(_) => newest.is_some_and(|newest| len - gone > newest),
                TrimBound::From(id) => entry.id < id,
            });
            self.len -= count;
            removed += count;
            // Its highest entries were removed before, one by one.
            if block.live() == 0 {
                let block = first.remove();
                self.memory -= block.memory() + BLOCK_PLACE_BYTES;
            }
            break;
        }
        removed
    }

    /// Whether somebody who waits for the stream may have something to hear that he had not when it was as `before`: an entry,
    /// one more for a group, or that a group is gone.
    pub(crate) fn has_news_since(&self, before: &Stream) -> bool {
        let have_all = self.groups.len() == before.groups.len()
            && self
                .groups
                .iter()
                .zip(&before.groups)
                .all(|(after, before)| after.0 == before.0 && after.1.last_id >= before.1.last_id);
        (self.last_id, self.added) != (before.last_id, before.added) || !have_all
    }

    /// The groups, by name.
    pub(super) fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// The group of this name.
    pub(crate) fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Adds a group; `false` if there is one of this name.
    pub(super) fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.memory += group.memory(name);
        self.groups.insert(name.into(), group);
        true
    }

    /// The group that was added last, if it is the last by name too.
    pub(super) fn last_group(&self) -> Option<(&[u8], &Group)> {
        self.groups.last_key_value().map(|(name, group)| (&**name, group))
    }

    /// Takes out a group.
    pub(super) fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        let group = self.groups.remove(name)?;
        self.memory -= group.memory(name);
        Some(group)
    }

    /// Changes the group of this name, if there is one.
    pub(super) fn with_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        let before = group.memory(name);
        let result = change(group);
        self.memory = self.memory - before + group.memory(name);
        Some(result)
    }

    /// The same, with the entries beside it.
    pub(super) fn with_group_and_entries<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Group, &Stream) -> R,
    ) -> Option<R> {
        // Taken out of its place, so that the stream can be read meanwhile: no more than some words are moved.
        let place = self.groups.get_mut(name)?;
        let mut group = std::mem::replace(place, Group::new(StreamId::MIN, None));
        let before = group.memory(name);
        let result = change(&mut group, self);
        self.memory = self.memory - before + group.memory(name);
        *self.groups.get_mut(name).expect("found above") = group;
        Some(result)
    }

    /// Drops about `budget` blocks and pending entries, and counts it down; `true` once none is left.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 && self.blocks.pop_first().is_some() {
            *budget -= 1;
        }
        while *budget > 0
            && let Some(mut last) = self.groups.last_entry()
        {
            if !last.get_mut().drain(budget) {
                return false;
            }
            last.remove();
            *budget = budget.saturating_sub(1);
        }
        self.blocks.is_empty() && self.groups.is_empty()
    }
}

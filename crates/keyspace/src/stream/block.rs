//! A run of entries of a stream, as bytes.
//!
//! ```text
//!   bytes    names | entry | entry | ..
//!   names    count | name*                       of the entry that the block was begun with
//!   entry    ms | seq | length | content         length: bytes of the content
//!     ms     how many milliseconds behind the base, shifted; the lowest bit says that it has names of its own
//!     seq    how much above that of the base, if it is of the same millisecond; else as it is
//!     content   value*, one for each of the names; or count | (name | value)*
//!   name, value   an integer between -2^62 and 2^62, of which the zigzag form is shifted, and the lowest bit is set;
//!                 or how many bytes follow, shifted
//! ```
//!
//! All numbers are varints. Entries of one stream mostly have the same names, and ids that are close together: an entry
//! takes some three bytes beside its values. Entries that are removed are cut out; that they were there is counted, because
//! what a block may hold, and with it what an approximate trim removes, depends on it.
//!
//! Invariants:
//! 1. `bytes` are names and entries in ascending order of their ids, all between the base and `last`; there is at least
//!    one, and `live` counts them.

use crate::listpack::Element;
use crate::object::allocation_size;
use codec::{Reader, Writer};
use ids::StreamId;
use resp::Args;

/// No block has more bytes, but for one that has a single entry.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 20;

/// No block has more entries.
pub(super) const BLOCK_ENTRIES_MAX: u32 = 1 << 16;

/// By how many milliseconds ids of a block differ at most.
const BLOCK_MILLIS_MAX: u64 = 1 << 62;

/// Integers whose zigzag form is below this are kept as such.
const ZIGZAG_MAX: u64 = 1 << 63;

/// See the file's header. Its base, the id of its first entry ever, is known to whoever has it.
#[derive(Clone)]
pub(super) struct Block {
    /// No entry of it ever had a higher id.
    last: StreamId,
    live: u32,
    removed: u32,
    bytes: Vec<u8>,
}

/// One entry.
#[derive(Clone, Copy)]
pub(crate) struct StreamEntry<'a> {
    /// Its id.
    pub(crate) id: StreamId,
    /// Names that it shares with others, and how many; none if it has its own.
    names: Option<(usize, &'a [u8])>,
    content: &'a [u8],
}

fn write_element(to: &mut Vec<u8>, text: &[u8]) {
    if let Element::Integer(number) = Element::of(text) {
        let zigzag = ((number << 1) ^ (number >> 63)) as u64;
        if zigzag < ZIGZAG_MAX {
            return to.varint(zigzag << 1 | 1);
        }
    }
    to.varint((text.len() as u64) << 1);
    to.raw(text);
}

fn read_element<'a>(rest: &mut Reader<'a>) -> Option<Element<'a>> {
    let head = rest.varint().ok()?;
    if head & 1 == 0 {
        let length = usize::try_from(head >> 1).ok()?;
        return rest.take(length).ok().map(Element::Bytes);
    }
    let zigzag = head >> 1;
    Some(Element::Integer((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
}

fn is_text(element: Element<'_>, text: &[u8]) -> bool {
    match element {
        Element::Bytes(bytes) => bytes == text,
        Element::Integer(number) => Element::of(text) == Element::Integer(number),
    }
}

/// How many names, and their bytes.
type Names<'a> = (usize, &'a [u8]);

/// The names of `bytes`, and what stands behind them.
fn names(bytes: &[u8]) -> Option<(Names<'_>, &[u8])> {
    let mut rest = Reader::new(bytes);
    let count = usize::try_from(rest.varint().ok()?).ok()?;
    let names = rest.rest();
    for _ in 0..count {
        read_element(&mut rest)?;
    }
    let length = names.len() - rest.rest().len();
    Some(((count, &names[..length]), rest.rest()))
}

impl Block {
    /// A block without entries: one follows.
    pub(super) fn begin(base: StreamId, fields: Args<'_>) -> Block {
        let mut bytes = Vec::new();
        bytes.varint((fields.len() / 2) as u64);
        fields
            .iter()
            .step_by(2)
            .for_each(|name| write_element(&mut bytes, name));
        Block {
            last: base,
            live: 0,
            removed: 0,
            bytes,
        }
    }

    /// What was written by [`Block::write`]; `None` if it is none.
    pub(super) fn read(base: StreamId, rest: &mut Reader<'_>) -> Option<Block> {
        let last = StreamId::new(rest.u64().ok()?, rest.u64().ok()?);
        let (announced, removed) = (rest.u32().ok()?, rest.u32().ok()?);
        let mut block = Block {
            last,
            live: 0,
            removed,
            bytes: rest.rest().to_vec(),
        };
        let mut before = None;
        let mut entries = Entries::of(base, &block.bytes)?;
        let mut live = 0u32;
        while !entries.rest.is_empty() {
            let entry = entries.step()?;
            let is_above = before.is_none_or(|before| before < entry.id);
            if !is_above || entry.id > last || !entry.is_sound() {
                return None;
            }
            before = Some(entry.id);
            live = live.checked_add(1)?;
        }
        block.live = live;
        let counted = live.checked_add(removed)?;
        (live > 0 && live == announced && counted <= BLOCK_ENTRIES_MAX).then_some(block)
    }

    /// Writes all but the base.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.u64s(&[self.last.ms, self.last.seq]);
        to.u32(self.live);
        to.u32(self.removed);
        to.raw(&self.bytes);
    }

    /// How many entries there are.
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// No entry of it ever had a higher id.
    pub(super) fn last(&self) -> StreamId {
        self.last
    }

    /// The entries that had higher ids are removed, and their ids may be used again.
    pub(super) fn lower_last(&mut self, id: StreamId) {
        self.last = id;
    }

    /// Bytes of memory, without its place in the stream.
    pub(super) fn memory(&self) -> usize {
        allocation_size(self.bytes.capacity())
    }

    /// Whether an entry of this id, with so many bytes of fields, goes into a block of its own: this one has as many entries
    /// or bytes as it may. A limit of 0 is none.
    pub(super) fn is_full(
        &self,
        base: StreamId,
        id: StreamId,
        bytes: usize,
        (bytes_max, entries_max): (u32, u32),
    ) -> bool {
        let bytes_max = match bytes_max as usize {
            0 => BLOCK_BYTES_MAX,
            bytes => bytes.min(BLOCK_BYTES_MAX),
        };
        let entries_max = match entries_max {
            0 => BLOCK_ENTRIES_MAX,
            entries => entries.min(BLOCK_ENTRIES_MAX),
        };
        // As if it shared no names: what it takes is known when it is written.
        self.live + self.removed >= entries_max
            || self.bytes.len() + bytes >= bytes_max
            || id.ms - base.ms >= BLOCK_MILLIS_MAX
    }

    /// Adds an entry above all that it had.
    pub(super) fn push(&mut self, base: StreamId, id: StreamId, fields: Args<'_>) {
        debug_assert!(self.live + self.removed == 0 || id > self.last);
        let shares = self.shares_names(fields);
        let ms = id.ms - base.ms;
        self.bytes.varint(ms << 1 | u64::from(!shares));
        self.bytes
            .varint(if ms == 0 { id.seq - base.seq } else { id.seq });
        // The length stands before the content, and mostly takes one byte.
        let length_at = self.bytes.len();
        self.bytes.u8(0);
        if !shares {
            self.bytes.varint((fields.len() / 2) as u64);
        }
        let skipped = if shares { 2 } else { 1 };
        let first = skipped - 1;
        fields
            .iter()
            .skip(first)
            .step_by(skipped)
            .for_each(|text| write_element(&mut self.bytes, text));
        let length = self.bytes.len() - length_at - 1;
        if length < 0x80 {
            self.bytes[length_at] = length as u8;
        } else {
            let mut written = Vec::new();
            written.varint(length as u64);
            self.bytes.splice(length_at..=length_at, written);
        }
        self.last = id;
        self.live += 1;
    }

    /// Whether these fields have the names of the block.
    fn shares_names(&self, fields: Args<'_>) -> bool {
        let mut rest = Reader::new(&self.bytes);
        let count = rest.varint().expect("invariant 1");
        count == (fields.len() / 2) as u64
            && fields
                .iter()
                .step_by(2)
                .all(|name| read_element(&mut rest).is_some_and(|element| is_text(element, name)))
    }

    /// Nothing is added any more.
    pub(super) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The entries in their order.
    pub(super) fn entries(&self, base: StreamId) -> Entries<'_> {
        Entries::of(base, &self.bytes).expect("invariant 1")
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, base: StreamId, id: StreamId) -> bool {
        let mut entries = self.entries(base);
        loop {
            let start = self.bytes.len() - entries.rest.len();
            match entries.next() {
                Some(entry) if entry.id < id => {}
                Some(entry) if entry.id == id => {
                    let end = self.bytes.len() - entries.rest.len();
                    self.cut(start, end, 1);
                    return true;
                }
                _ => return false,
            }
        }
    }

    /// Removes entries from the first on, while `goes` says so of one and of how many went before it. How many did.
    pub(super) fn remove_first(
        &mut self,
        base: StreamId,
        mut goes: impl FnMut(StreamEntry<'_>, usize) -> bool,
    ) -> usize {
        let mut entries = self.entries(base);
        let start = self.bytes.len() - entries.rest.len();
        let (mut end, mut count) = (start, 0);
        while let Some(entry) = entries.next()
            && goes(entry, count)
        {
            end = self.bytes.len() - entries.rest.len();
            count += 1;
        }
        self.cut(start, end, count);
        count
    }

    fn cut(&mut self, start: usize, end: usize, count: usize) {
        self.bytes.drain(start..end);
        self.live -= count as u32;
        self.removed += count as u32;
    }
}

/// Entries of a block.
#[derive(Clone)]
pub(super) struct Entries<'a> {
    base: StreamId,
    names: Names<'a>,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    fn of(base: StreamId, bytes: &'a [u8]) -> Option<Entries<'a>> {
        let (names, rest) = names(bytes)?;
        Some(Entries { base, names, rest })
    }

    /// The next one; `None` if the bytes are none.
    #[inline]
    fn step(&mut self) -> Option<StreamEntry<'a>> {
        let mut rest = Reader::new(self.rest);
        let head = rest.varint().ok()?;
        let seq = rest.varint().ok()?;
        let length = usize::try_from(rest.varint().ok()?).ok()?;
        let content = rest.take(length).ok()?;
        let ms = head >> 1;
        let id = StreamId::new(
            self.base.ms.checked_add(ms)?,
            if ms == 0 {
                self.base.seq.checked_add(seq)?
            } else {
                seq
            },
        );
        self.rest = rest.rest();
        Some(StreamEntry {
            id,
            names: (head & 1 == 0).then_some(self.names),
            content,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = StreamEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<StreamEntry<'a>> {
        (!self.rest.is_empty()).then(|| self.step().expect("invariant 1"))
    }
}

impl<'a> StreamEntry<'a> {
    /// How many fields it has, and a reader of what follows the count.
    fn count(self) -> Option<(usize, Reader<'a>)> {
        let mut rest = Reader::new(self.content);
        let count = match self.names {
            Some((count, _)) => count,
            None => usize::try_from(rest.varint().ok()?).ok()?,
        };
        Some((count, rest))
    }

    /// Whether its content is what it should be.
    fn is_sound(self) -> bool {
        let Some((count, mut rest)) = self.count() else {
            return false;
        };
        let elements = if self.names.is_some() {
            count
        } else {
            count.saturating_mul(2)
        };
        // Each element has a byte or more.
        elements <= self.content.len()
            && count > 0
            && (0..elements).all(|_| read_element(&mut rest).is_some())
            && rest.is_empty()
    }

    /// How many fields it has.
    pub(crate) fn len(self) -> usize {
        self.count().expect("the block's invariant 1").0
    }

    /// The fields with their values.
    pub(crate) fn fields(self) -> impl Iterator<Item = (Element<'a>, Element<'a>)> {
        let (count, mut values) = self.count().expect("the block's invariant 1");
        let mut names = self.names.map(|(_, names)| Reader::new(names));
        (0..count).map(move |_| {
            let name = match &mut names {
                Some(names) => read_element(names),
                None => read_element(&mut values),
            };
            name.zip(read_element(&mut values))
                .expect("the block's invariant 1")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn texts(entry: StreamEntry<'_>) -> Vec<Vec<u8>> {
        let fields = entry.fields();
        fields
            .flat_map(|(name, value)| [name.to_vec(), value.to_vec()])
            .collect()
    }

    /// Entries of all kinds: with the names of the block, with others, with numbers at their limits, and long ones.
    fn block() -> (StreamId, Block, Vec<(StreamId, ArgsBuf)>) {
        let base = StreamId::new(1_000, 7);
        let long = "x".repeat(300);
        let wide: Vec<String> = (0..80).map(|number| format!("f{number}")).collect();
        let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
        let fields: [&[&str]; 7] = [
            &["name", "1", "7", "-1"],
            &["name", "9223372036854775807", "7", "4611686018427387903"],
            &["name", "-4611686018427387905", "7", "01"],
            &["name", "a", "07", "b"],
            &["name", ""],
            &["name", &long, "7", ""],
            &wide,
        ];
        let ids = [
            (1_000, 7),
            (1_000, 8),
            (1_001, 0),
            (1_001, 900),
            (5_000, 1),
            (5_001, u64::MAX),
            (1 << 61, 3),
        ];
        let mut entries = Vec::new();
        let mut block = None;
        for ((ms, seq), fields) in ids.into_iter().zip(fields) {
            let (id, fields) = (StreamId::new(ms, seq), ArgsBuf::from_slices(fields));
            let block = block.get_or_insert_with(|| Block::begin(base, fields.as_args()));
            block.push(base, id, fields.as_args());
            entries.push((id, fields));
        }
        (base, block.expect("there are entries"), entries)
    }

    fn read(base: StreamId, bytes: &[u8]) -> Option<Block> {
        Block::read(base, &mut Reader::new(bytes))
    }

    #[track_caller]
    fn check(base: StreamId, block: &Block, expected: &[(StreamId, ArgsBuf)]) {
        let found: Vec<_> = block
            .entries(base)
            .map(|entry| (entry.id, texts(entry)))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, fields)| (*id, fields.as_args().iter().map(<[u8]>::to_vec).collect()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(block.live(), expected.len());
    }

    #[test]
    fn entries_are_read_as_they_were_added() {
        let (base, block, entries) = block();
        check(base, &block, &entries);
        let mut bytes = Vec::new();
        block.write(&mut bytes);
        check(base, &read(base, &bytes).expect("it was written"), &entries);
    }

    #[test]
    fn whichever_entry_is_removed_the_others_stay_and_it_is_counted() {
        let (base, whole, entries) = block();
        for (at, (id, _)) in entries.iter().enumerate() {
            let mut block = whole.clone();
            assert!(block.remove(base, *id) && !block.remove(base, *id));
            let mut rest = entries.clone();
            rest.remove(at);
            check(base, &block, &rest);
            assert_eq!((block.removed, block.last()), (1, whole.last()));
        }
        let mut block = whole;
        assert!(!block.remove(base, StreamId::new(1_000, 9)));
        assert_eq!(block.remove_first(base, |_, count| count < 3), 3);
        check(base, &block, &entries[3..]);
    }

    #[test]
    fn an_entry_of_shared_names_takes_few_bytes_beside_its_values() {
        let base = StreamId::new(1_700_000_000_000, 0);
        let fields = ArgsBuf::from_slices(["temperature", "21.5", "humidity", "62"]);
        let mut block = Block::begin(base, fields.as_args());
        let names = block.bytes.len();
        for entry in 0..100 {
            block.push(base, StreamId::new(base.ms + entry * 10, 0), fields.as_args());
        }
        let each = (block.bytes.len() - names) / 100;
        assert!(each <= 11, "{each}");
    }

    #[test]
    fn bytes_that_are_no_block_are_refused() {
        let (base, block, _) = block();
        let mut bytes = Vec::new();
        block.write(&mut bytes);
        for end in 0..bytes.len() {
            assert!(read(base, &bytes[..end]).is_none(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Some(found) = read(base, &damaged) {
                    found.entries(base).for_each(|entry| _ = texts(entry));
                }
            }
        }
    }
}

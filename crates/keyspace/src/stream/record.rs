//! A stream as a sequence of records: how it is written into entries, transfers and backups, and what is hashed of it.
//!
//! ```text
//!   record      length u32 | kind u8 | fields
//!   0 state     last id, highest deleted id, entries ever added u64         the first one
//!   1 block     base, last id, entries u32, removed ones u32, bytes to the end (`block.rs`)   by base
//!   2 group     last id, entries read bool u64, name to the end             by name; what follows is of it
//!   3 consumer  seen at i64, active bool i64, name to the end               by name
//!   4 pending   (id, consumer u32, delivered at i64, deliveries u64)*       by id; a consumer is the number of its record
//!   id          milliseconds u64, sequence u64
//! ```
//!
//! Whoever reads them one after the other finds out whether each of them may follow: a stream is complete behind any of them.

use super::block::Block;
use super::entries::Stream;
use super::group::{ConsumerNumber, Group, Pending};
use codec::{Reader, Writer, fill_count};
use ids::{StreamId, UnixMillis};
use mutations::Mutation;

/// Pending entries of one record.
const PENDING_MAX: usize = 128;

/// Pending entries that are compared at a time.
const SAMPLED_MAX: usize = 16;

/// Where the next piece of a stream begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordsFrom {
    /// At the state.
    Start,
    /// At the block of this base.
    Block(StreamId),
    /// At the group of this number, by name.
    Group(usize),
    /// At what is pending in that group, from this id on.
    Pending(usize, StreamId),
}

fn id(to: &mut Vec<u8>, id: StreamId) {
    to.u64s(&[id.ms, id.seq]);
}

fn read_id(rest: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId::new(rest.u64().ok()?, rest.u64().ok()?))
}

/// Writes a record: its length, its kind, and what `fields` writes.
fn record(to: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let length_at = to.len();
    to.count(0);
    to.u8(kind);
    fields(to);
    fill_count(to, length_at);
}

fn optional(to: &mut Vec<u8>, number: Option<u64>) {
    to.bool(number.is_some());
    to.u64(number.unwrap_or(0));
}

fn read_optional(rest: &mut Reader<'_>) -> Option<Option<u64>> {
    let is_there = rest.bool().ok()?;
    let number = rest.u64().ok()?;
    Some(is_there.then_some(number))
}

impl Stream {
    /// Writes all records.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let rest = self.write_from(to, RecordsFrom::Start, usize::MAX);
        debug_assert!(rest.is_none(), "there is no limit");
    }

    /// Writes records until `to` has `limit` bytes, one at least. Where the next piece begins; `None` if it was the last.
    pub(crate) fn write_from(
        &self,
        to: &mut Vec<u8>,
        from: RecordsFrom,
        limit: usize,
    ) -> Option<RecordsFrom> {
        let (block, group) = match from {
            RecordsFrom::Start => {
                self.write_state(to);
                (Some(StreamId::MIN), 0)
            }
            RecordsFrom::Block(base) => (Some(base), 0),
            RecordsFrom::Group(group) | RecordsFrom::Pending(group, _) => (None, group),
        };
        for (base, block) in block.into_iter().flat_map(|base| self.blocks_from(base)) {
            if to.len() >= limit {
                return Some(RecordsFrom::Block(base));
            }
            record(to, 1, |to| {
                id(to, base);
                block.write(to);
            });
        }
        let mut pending_from = match from {
            RecordsFrom::Pending(..) if mutations::is(Mutation::PendingLeftOut) => Some(StreamId::MAX),
            RecordsFrom::Pending(_, id) => Some(id),
            _ => None,
        };
        for (number, (name, group)) in self.groups().enumerate().skip(group) {
            let pending_from = match pending_from.take() {
                Some(id) => id,
                None if to.len() >= limit => return Some(RecordsFrom::Group(number)),
                None => {
                    write_group(to, name, group);
                    StreamId::MIN
                }
            };
            if let Some(next) = write_pending(to, group, pending_from, limit) {
                return Some(RecordsFrom::Pending(number, next));
            }
        }
        None
    }

    /// Some records somewhere in it, the same for the same number: what is compared of a large one.
    pub(crate) fn sample(&self, at: u64) -> Vec<u8> {
        let mut records = Vec::new();
        self.write_state(&mut records);
        let first = self.blocks_from(StreamId::MIN).next();
        let span = first.map_or(0, |(first, _)| self.last_id.ms - first.ms);
        let drawn = StreamId::new(
            first.map_or(0, |(first, _)| first.ms) + at % span.max(1),
            if span == 0 { at } else { 0 },
        );
        if let Some((base, block)) = self.block_for(drawn) {
            record(&mut records, 1, |to| {
                id(to, base);
                block.write(to);
            });
        }
        let group = (at % self.groups().len().max(1) as u64) as usize;
        if let Some((_, group)) = self.groups().nth(group) {
            id(&mut records, group.last_id);
            optional(&mut records, group.entries_read);
            for (of, pending) in group.pending_from(drawn).take(SAMPLED_MAX) {
                id(&mut records, of);
                records.i64(pending.delivered_at.0);
                records.u64(pending.deliveries);
                records.bytes(&group.consumer(pending.consumer).name);
            }
        }
        records
    }

    fn write_state(&self, to: &mut Vec<u8>) {
        record(to, 0, |to| {
            id(to, self.last_id);
            id(to, self.max_deleted);
            to.u64(self.added);
        });
    }

    /// Adds what a record holds; `None` if it is none, or cannot follow those before it.
    pub(crate) fn read_record(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = Reader::new(bytes);
        match rest.u8().ok()? {
            0 => {
                let is_unused = self.last_id == StreamId::MIN && self.added == 0;
                let is_first = is_unused && self.len() == 0 && self.groups().len() == 0;
                let (last_id, max_deleted) = (read_id(&mut rest)?, read_id(&mut rest)?);
                let added = rest.u64().ok()?;
                if !is_first || !rest.is_empty() {
                    return None;
                }
                (self.last_id, self.max_deleted, self.added) = (last_id, max_deleted, added);
            }
            1 => {
                let base = read_id(&mut rest)?;
                let block = Block::read(base, &mut rest)?;
                return self.add_block(base, block).filter(|()| self.groups().len() == 0);
            }
            2 => {
                let mut last_id = read_id(&mut rest)?;
                if mutations::is(Mutation::GroupStartsAnew) {
                    last_id = StreamId::MIN;
                }
                let entries_read = read_optional(&mut rest)?;
                let name = rest.rest();
                let is_behind = self.last_group().is_none_or(|(before, _)| before < name);
                let group = Group::new(last_id, entries_read);
                return (is_behind && self.add_group(name, group)).then_some(());
            }
            3 => {
                let seen_at = UnixMillis(rest.i64().ok()?);
                let active_at = read_optional(&mut rest)?.map(|millis| UnixMillis(millis as i64));
                let name = rest.rest();
                return self.with_last_group(|group| {
                    let before = group.consumers().last();
                    if before.is_some_and(|(_, before)| &*before.name >= name) || group.pending_len() > 0 {
                        return None;
                    }
                    let number = group.add_consumer(name, seen_at);
                    group.set_times(number, seen_at, active_at);
                    Some(())
                });
            }
            4 => {
                if rest.is_empty() {
                    return None;
                }
                return self.with_last_group(|group| {
                    let consumers: Vec<ConsumerNumber> =
                        group.consumers().map(|(number, _)| number).collect();
                    while !rest.is_empty() {
                        let id = read_id(&mut rest)?;
                        let consumer = *consumers.get(rest.u32().ok()? as usize)?;
                        let pending = Pending {
                            consumer,
                            delivered_at: UnixMillis(rest.i64().ok()?),
                            deliveries: rest.u64().ok()?,
                        };
                        if group.pending_from(id).next().is_some() {
                            return None;
                        }
                        group.set_pending(id, pending);
                    }
                    Some(())
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn with_last_group(&mut self, change: impl FnOnce(&mut Group) -> Option<()>) -> Option<()> {
        let name: Box<[u8]> = self.last_group()?.0.into();
        self.with_group(&name, change)?
    }
}

fn write_group(to: &mut Vec<u8>, name: &[u8], group: &Group) {
    record(to, 2, |to| {
        id(to, group.last_id);
        optional(to, group.entries_read);
        to.raw(name);
    });
    for (_, consumer) in group.consumers() {
        record(to, 3, |to| {
            to.i64(consumer.seen_at.0);
            optional(to, consumer.active_at.map(|time| time.0 as u64));
            to.raw(&consumer.name);
        });
    }
}

/// Writes what is pending from an id on, until there are `limit` bytes. From where on the next piece goes on, if it does.
fn write_pending(to: &mut Vec<u8>, group: &Group, from: StreamId, limit: usize) -> Option<StreamId> {
    let mut places: Vec<(ConsumerNumber, u32)> = (0..)
        .zip(group.consumers())
        .map(|(place, (number, _))| (number, place))
        .collect();
    places.sort_unstable();
    let place_of = |number: ConsumerNumber| {
        let found = places.binary_search_by_key(&number, |(number, _)| *number);
        places[found.expect("the group's invariant 1")].1
    };
    let mut pending = group.pending_from(from).peekable();
    while let Some((first, _)) = pending.peek() {
        if to.len() >= limit {
            return Some(*first);
        }
        record(to, 4, |to| {
            for (of, pending) in pending.by_ref().take(PENDING_MAX) {
                id(to, of);
                to.u32(place_of(pending.consumer));
                to.i64(pending.delivered_at.0);
                to.u64(pending.deliveries);
            }
        });
    }
    None
}

/// Whether these are records, each of which some stream could have, at least one.
pub(crate) fn are_records(bytes: &[u8]) -> bool {
    let mut rest = Reader::new(bytes);
    let mut is_whole = !rest.is_empty();
    while is_whole && !rest.is_empty() {
        is_whole = rest.bytes().is_ok_and(|record| matches!(record, [0..=4, ..]));
    }
    is_whole
}

/// Whether these are the records of one stream, from its state on.
pub(crate) fn is_stream(bytes: &[u8]) -> bool {
    let (mut stream, mut rest) = (Stream::default(), Reader::new(bytes));
    let mut is_whole = matches!(bytes, [_, _, _, _, 0, ..]);
    while is_whole && !rest.is_empty() {
        is_whole = rest
            .bytes()
            .is_ok_and(|record| stream.read_record(record).is_some());
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EncodingLimits;
    use command::NewId;
    use ids::Prng;
    use resp::ArgsBuf;

    /// A stream in whose middle something is missing, with groups of many and of no pending entries.
    fn stream(seed: u64) -> Stream {
        let mut prng = Prng::new(seed);
        let mut stream = Stream::default();
        for number in 0..600 {
            let value = "v".repeat(prng.below(60) as usize);
            let fields = ArgsBuf::from_slices(["name", &value, "other", "7"]);
            let added = stream.add(
                NewId::Now,
                UnixMillis(number),
                fields.as_args(),
                &EncodingLimits::default(),
            );
            added.expect("ids grow");
        }
        for ms in (200..300).chain([7, 599]) {
            assert!(stream.remove(StreamId::new(ms, 0)));
        }
        for (name, pending) in [(&b"a"[..], 300), (b"b", 0), (b"c", 3)] {
            let mut group = Group::new(
                StreamId::new(pending, 0),
                Some(pending).filter(|pending| *pending > 0),
            );
            let consumers = [&b"x"[..], b"y"].map(|name| group.add_consumer(name, UnixMillis(9)));
            group.add_consumer(b"none", UnixMillis(1));
            group.activate(consumers[1], UnixMillis(11));
            for ms in 0..pending {
                let pending = Pending {
                    consumer: consumers[prng.below(2) as usize],
                    delivered_at: UnixMillis(prng.below(1_000) as i64),
                    deliveries: 1 + prng.below(3),
                };
                group.set_pending(StreamId::new(ms, 0), pending);
            }
            assert!(stream.add_group(name, group));
        }
        stream
    }

    fn written(stream: &Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_stream_is_read_as_it_was_written_in_pieces_of_any_size() {
        for seed in 0..4 {
            let stream = stream(seed);
            stream.check().expect("it is sound");
            let whole = written(&stream);
            assert!(is_stream(&whole) && are_records(&whole));
            for piece in [1, 100, 5_000, usize::MAX] {
                let (mut from, mut joined, mut copy) =
                    (Some(RecordsFrom::Start), Vec::new(), Stream::default());
                while let Some(place) = from {
                    let mut bytes = Vec::new();
                    from = stream.write_from(&mut bytes, place, piece);
                    assert!(are_records(&bytes));
                    let mut rest = Reader::new(&bytes);
                    while let Ok(record) = rest.bytes() {
                        copy.read_record(record).expect("it follows");
                    }
                    joined.extend(bytes);
                }
                assert!(joined == whole && written(&copy) == whole, "pieces of {piece}");
                copy.check().expect("it is as sound");
            }
        }
    }

    #[test]
    fn records_that_cannot_follow_are_refused_and_leave_it_sound() {
        let whole = written(&stream(1));
        let mut rest = Reader::new(&whole);
        let records: Vec<&[u8]> = std::iter::from_fn(|| rest.bytes().ok()).collect();
        for (at, record) in records.iter().enumerate() {
            let mut copy = Stream::default();
            for record in &records[..=at] {
                copy.read_record(record).expect("it follows");
            }
            // Nothing stands there twice, and no block behind a group.
            assert!(copy.read_record(record).is_none(), "record {at} again");
            copy.check().expect("it is sound");
        }
        let mut prng = Prng::new(5);
        for _ in 0..2_000 {
            let mut damaged = whole.clone();
            let at = prng.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << prng.below(8);
            let (mut copy, mut rest) = (Stream::default(), Reader::new(&damaged));
            while let Ok(record) = rest.bytes()
                && copy.read_record(record).is_some()
            {}
            copy.check().expect("it is sound");
        }
    }

    #[test]
    fn what_is_dropped_piece_by_piece_is_gone_at_the_end() {
        let mut stream = stream(2);
        let mut rounds = 0;
        while !stream.drain(&mut 10) {
            rounds += 1;
        }
        assert!(rounds > 50, "{rounds}");
        assert!(stream.blocks_len() == 0 && stream.groups().len() == 0);
    }
}

//! What is answered of streams: entries, what is pending, and how they stand.

use super::block::StreamEntry;
use super::entries::Stream;
use super::group::{Group, Pending};
use super::stream_of;
use crate::object::Kind;
use crate::read::Reader;
use command::{ReplyError, StreamCommand};
use ids::{StreamId, UnixMillis};
use resp::{Args, ReplyWriter};

/// The longest id: two numbers of twenty digits.
const ID_BYTES: usize = 41;

/// Writes an id as clients read it.
pub(super) fn write_id(out: &mut ReplyWriter<'_>, id: StreamId) {
    let mut text = [0u8; ID_BYTES];
    let mut digits = itoa::Buffer::new();
    let ms = digits.format(id.ms).as_bytes();
    let mut length = ms.len();
    text[..length].copy_from_slice(ms);
    text[length] = b'-';
    let seq = digits.format(id.seq).as_bytes();
    text[length + 1..length + 1 + seq.len()].copy_from_slice(seq);
    length += 1 + seq.len();
    out.bulk(&text[..length]);
}

/// Writes an entry: its id, and its fields with their values.
pub(super) fn write_entry(out: &mut ReplyWriter<'_>, entry: StreamEntry<'_>) {
    out.array(2);
    write_id(out, entry.id);
    out.array(2 * entry.len());
    for (name, value) in entry.fields() {
        name.write(out);
        value.write(out);
    }
}

fn number(out: &mut ReplyWriter<'_>, name: &str, number: i64) {
    out.bulk(name.as_bytes());
    out.integer(number);
}

fn id(out: &mut ReplyWriter<'_>, name: &str, id: StreamId) {
    out.bulk(name.as_bytes());
    write_id(out, id);
}

fn optional(out: &mut ReplyWriter<'_>, name: &str, number: Option<i64>) {
    out.bulk(name.as_bytes());
    match number {
        Some(number) => out.integer(number),
        None => out.null(),
    }
}

/// Milliseconds from then to now.
fn since(then: UnixMillis, now: UnixMillis) -> i64 {
    now.0.saturating_sub(then.0).max(0)
}

/// How many of `len` are told, if no more than `count` are; 0 is no limit.
fn told(len: usize, count: u64) -> usize {
    match usize::try_from(count) {
        Ok(0) | Err(_) => len,
        Ok(count) => len.min(count),
    }
}

impl Reader<'_, '_> {
    /// The dispatch of commands that do not write.
    pub(crate) fn stream(&mut self, command: &StreamCommand<'_>) {
        let result = match *command {
            StreamCommand::Len { key } => self
                .with_stream(key, |stream, out| out.integer(stream.len() as i64))
                .map(|found| {
                    if found.is_none() {
                        self.out.integer(0);
                    }
                }),
            StreamCommand::Range {
                key,
                start,
                end,
                count,
                reverse,
            } => self.xrange(key, (start, end), count, reverse),
            StreamCommand::Read(ref read) => self.read_streams(read).map(|is_told| {
                if !is_told {
                    self.out.null_array();
                }
            }),
            StreamCommand::LastIds { keys } => {
                self.last_ids(keys);
                Ok(())
            }
            StreamCommand::Pending { key, group } => self.pending(key, group),
            StreamCommand::PendingRange {
                key,
                group,
                start,
                end,
                count,
                idle_min_millis,
                consumer,
            } => self.pending_range(key, group, (start, end), count, idle_min_millis, consumer),
            StreamCommand::Info { key } => self.xinfo(key),
            StreamCommand::FullInfo { key, count } => self.xinfo_full(key, count),
            StreamCommand::GroupsInfo { key } => self.xinfo_groups(key),
            StreamCommand::ConsumersInfo { key, group } => self.xinfo_consumers(key, group),
            StreamCommand::Add { .. }
            | StreamCommand::Delete { .. }
            | StreamCommand::Trim { .. }
            | StreamCommand::SetId { .. }
            | StreamCommand::Acknowledge { .. }
            | StreamCommand::Claim { .. }
            | StreamCommand::AutoClaim { .. }
            | StreamCommand::CreateGroup { .. }
            | StreamCommand::SetGroupId { .. }
            | StreamCommand::DestroyGroup { .. }
            | StreamCommand::CreateConsumer { .. }
            | StreamCommand::DeleteConsumer { .. } => unreachable!("{command:?} is not a read"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    /// Calls `answer` with the stream of `key`; `None` if there is none.
    fn with_stream<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&Stream, &mut ReplyWriter<'_>) -> R,
    ) -> Result<Option<R>, ReplyError> {
        let object = self.lookup_kind(key, Kind::Stream)?;
        Ok(object.map(|object| answer(stream_of(&object), self.out)))
    }

    fn xrange(
        &mut self,
        key: &[u8],
        (start, end): (StreamId, StreamId),
        count: Option<u64>,
        reverse: bool,
    ) -> Result<(), ReplyError> {
        let found = self.with_stream(key, |stream, out| {
            let most = match count {
                Some(0) => return out.null_array(),
                None => usize::MAX,
                Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
            };
            if start > end {
                return out.array(0);
            }
            if reverse {
                // From this end on they are counted as they are written.
                let mut told = Vec::new();
                let mut written = ReplyWriter::new(&mut told, out.protocol());
                let mut count = 0;
                for entry in stream.range_back(start, end).take(most) {
                    write_entry(&mut written, entry);
                    count += 1;
                }
                out.array(count);
                return out.raw(&told);
            }
            let count = stream.count(start, end, most);
            out.array(count);
            for entry in stream.range(start, end).take(count) {
                write_entry(out, entry);
            }
        })?;
        if found.is_none() {
            self.out.array(0);
        }
        Ok(())
    }

    /// What `$` stands for, of each of these keys. What is no stream is for the command to say.
    fn last_ids(&mut self, keys: Args<'_>) {
        self.out.array(keys.len());
        for key in keys.iter() {
            let object = self
                .lookup_untouched(key)
                .filter(|object| object.kind() == Kind::Stream);
            let last = object.map_or(StreamId::MIN, |object| stream_of(&object).last_id());
            write_id(self.out, last);
        }
    }

    /// Calls `answer` with a group, or answers that there is none.
    fn with_group(
        &mut self,
        key: &[u8],
        name: &[u8],
        answer: impl FnOnce(&Group, &mut ReplyWriter<'_>),
    ) -> Result<(), ReplyError> {
        let found = self.with_stream(key, |stream, out| {
            stream.group(name).map(|group| answer(group, out))
        })?;
        found.flatten().ok_or_else(|| ReplyError::no_group(key, name))
    }

    fn pending(&mut self, key: &[u8], name: &[u8]) -> Result<(), ReplyError> {
        self.with_group(key, name, |group, out| {
            out.array(4);
            out.integer(group.pending_len() as i64);
            let mut all = group.pending_from(StreamId::MIN);
            let (Some((first, _)), last) = (all.next(), all.next_back()) else {
                out.null();
                out.null();
                return out.null_array();
            };
            write_id(out, first);
            write_id(out, last.map_or(first, |(last, _)| last));
            let holders = group.consumers().map(|(_, consumer)| consumer);
            let holders: Vec<_> = holders.filter(|consumer| consumer.pending_len() > 0).collect();
            out.array(holders.len());
            for consumer in holders {
                out.array(2);
                out.bulk(&consumer.name);
                out.bulk_integer(consumer.pending_len() as i64);
            }
        })
    }

    fn pending_range(
        &mut self,
        key: &[u8],
        name: &[u8],
        (start, end): (StreamId, StreamId),
        count: u64,
        idle_min_millis: u64,
        consumer: Option<&[u8]>,
    ) -> Result<(), ReplyError> {
        let now = self.now;
        self.with_group(key, name, |group, out| {
            let consumer = match consumer.map(|name| group.find(name)) {
                Some(None) => return out.array(0),
                Some(Some(number)) => Some(group.consumer(number)),
                None => None,
            };
            let is_wanted = |(id, pending): &(StreamId, Pending)| {
                *id <= end && since(pending.delivered_at, now) as u64 >= idle_min_millis
            };
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let found: Vec<(StreamId, Pending)> = match consumer {
                Some(consumer) => consumer
                    .pending_from(start)
                    .take_while(|id| *id <= end)
                    .filter_map(|id| Some((id, group.pending(id)?)))
                    .filter(is_wanted)
                    .take(most)
                    .collect(),
                None => group
                    .pending_from(start)
                    .take_while(|(id, _)| *id <= end)
                    .map(|(id, pending)| (id, *pending))
                    .filter(is_wanted)
                    .take(most)
                    .collect(),
            };
            out.array(found.len());
            for (id, pending) in found {
                out.array(4);
                write_id(out, id);
                out.bulk(&group.consumer(pending.consumer).name);
                out.integer(since(pending.delivered_at, now));
                out.integer(pending.deliveries as i64);
            }
        })
    }

    fn xinfo(&mut self, key: &[u8]) -> Result<(), ReplyError> {
        let found = self.with_stream(key, |stream, out| {
            out.map(10);
            write_extent(out, stream);
            number(out, "groups", stream.groups().len() as i64);
            for (name, entry) in [("first-entry", stream.first()), ("last-entry", stream.last())] {
                out.bulk(name.as_bytes());
                match entry {
                    Some(entry) => write_entry(out, entry),
                    None => out.null(),
                }
            }
        })?;
        found.ok_or(ReplyError::NoSuchKey)
    }

    fn xinfo_full(&mut self, key: &[u8], count: u64) -> Result<(), ReplyError> {
        let found = self.with_stream(key, |stream, out| {
            out.map(9);
            write_extent(out, stream);
            out.bulk(b"entries");
            let entries = told(stream.len(), count);
            out.array(entries);
            for entry in stream.range(StreamId::MIN, StreamId::MAX).take(entries) {
                write_entry(out, entry);
            }
            out.bulk(b"groups");
            out.array(stream.groups().len());
            for (name, group) in stream.groups() {
                write_full_group(out, stream, name, group, count);
            }
        })?;
        found.ok_or(ReplyError::NoSuchKey)
    }

    fn xinfo_groups(&mut self, key: &[u8]) -> Result<(), ReplyError> {
        let found = self.with_stream(key, |stream, out| {
            let extent = stream.extent();
            out.array(stream.groups().len());
            for (name, group) in stream.groups() {
                out.map(6);
                out.bulk(b"name");
                out.bulk(name);
                number(out, "consumers", group.consumers_len() as i64);
                number(out, "pending", group.pending_len() as i64);
                id(out, "last-delivered-id", group.last_id);
                optional(out, "entries-read", group.entries_read.map(|read| read as i64));
                optional(out, "lag", extent.lag(group));
            }
        })?;
        found.ok_or(ReplyError::NoSuchKey)
    }

    fn xinfo_consumers(&mut self, key: &[u8], name: &[u8]) -> Result<(), ReplyError> {
        let now = self.now;
        let found = self.with_stream(key, |stream, out| {
            let group = stream.group(name)?;
            out.array(group.consumers_len());
            for (_, consumer) in group.consumers() {
                out.map(4);
                out.bulk(b"name");
                out.bulk(&consumer.name);
                number(out, "pending", consumer.pending_len() as i64);
                number(out, "idle", since(consumer.seen_at, now));
                // As Redis 7.2 has it.
                number(
                    out,
                    "inactive",
                    consumer.active_at.map_or(-1, |active| since(active, now)),
                );
            }
            Some(())
        })?;
        let found = found.ok_or(ReplyError::NoSuchKey)?;
        found.ok_or_else(|| ReplyError::no_group_of_key(key, name))
    }
}

/// The first seven fields of `XINFO STREAM`.
fn write_extent(out: &mut ReplyWriter<'_>, stream: &Stream) {
    let extent = stream.extent();
    let blocks = stream.blocks_len() as i64;
    number(out, "length", extent.len as i64);
    // There is no radix tree: blocks are what its keys stand for.
    number(out, "radix-tree-keys", blocks);
    number(out, "radix-tree-nodes", blocks + 1);
    id(out, "last-generated-id", extent.last_id);
    id(out, "max-deleted-entry-id", extent.max_deleted);
    number(out, "entries-added", extent.added as i64);
    id(out, "recorded-first-entry-id", extent.first_id);
}

fn write_full_group(out: &mut ReplyWriter<'_>, stream: &Stream, name: &[u8], group: &Group, count: u64) {
    out.map(7);
    out.bulk(b"name");
    out.bulk(name);
    id(out, "last-delivered-id", group.last_id);
    optional(out, "entries-read", group.entries_read.map(|read| read as i64));
    optional(out, "lag", stream.extent().lag(group));
    number(out, "pel-count", group.pending_len() as i64);
    out.bulk(b"pending");
    let pending = told(group.pending_len(), count);
    out.array(pending);
    for (id, pending) in group.pending_from(StreamId::MIN).take(pending) {
        out.array(4);
        write_id(out, id);
        out.bulk(&group.consumer(pending.consumer).name);
        out.integer(pending.delivered_at.0);
        out.integer(pending.deliveries as i64);
    }
    out.bulk(b"consumers");
    out.array(group.consumers_len());
    for (_, consumer) in group.consumers() {
        out.map(5);
        out.bulk(b"name");
        out.bulk(&consumer.name);
        number(out, "seen-time", consumer.seen_at.0);
        // As Redis 7.2 has it.
        number(
            out,
            "active-time",
            consumer.active_at.map_or(-1, |active| active.0),
        );
        number(out, "pel-count", consumer.pending_len() as i64);
        out.bulk(b"pending");
        let pending = told(consumer.pending_len(), count);
        out.array(pending);
        for id in consumer.pending_from(StreamId::MIN).take(pending) {
            let of = group.pending(id).expect("the group's invariant 1");
            out.array(3);
            write_id(out, id);
            out.integer(of.delivered_at.0);
            out.integer(of.deliveries as i64);
        }
    }
}

//! `XREAD` and `XREADGROUP`, whether they wait or not: as effects, they answer nil if there is nothing to tell.

use super::answers::{write_entry, write_id};
use super::entries::{Extent, Stream};
use super::group::{ConsumerNumber, Group, Pending};
use super::stream_of;
use crate::apply::Apply;
use crate::events::EventClasses;
use crate::object::Kind;
use crate::read::Reader;
use command::{GroupRead, ReadFrom, ReplyError, StreamRead};
use ids::{StreamId, UnixMillis};
use resp::{Protocol, ReplyWriter};

/// Writes how many streams follow.
fn write_header(out: &mut ReplyWriter<'_>, streams: usize) {
    match out.protocol() {
        Protocol::Resp2 => out.array(streams),
        Protocol::Resp3 => out.map(streams),
    }
}

/// Writes which stream it is of that follows.
fn write_key(out: &mut ReplyWriter<'_>, key: &[u8]) {
    if out.protocol() == Protocol::Resp2 {
        out.array(2);
    }
    out.bulk(key);
}

fn most(count: Option<u64>) -> usize {
    count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

impl Reader<'_, '_> {
    /// `XREAD`. Whether there was anything: if not, nothing is written.
    pub(crate) fn read_streams(&mut self, read: &StreamRead<'_>) -> Result<bool, ReplyError> {
        let mut found = Vec::new();
        for (key, from) in read.streams() {
            let Some(object) = self.lookup_kind(key, Kind::Stream)? else {
                continue;
            };
            let start = match from {
                ReadFrom::After(id) => id.next(),
                ReadFrom::Last | ReadFrom::New => None,
            };
            let is_served = start.is_some_and(|start| {
                let last = stream_of(&object).last_id();
                // Mostly nothing has come: the last id tells.
                start <= last && stream_of(&object).range(start, StreamId::MAX).next().is_some()
            });
            if is_served {
                found.push((key, object, start));
            }
        }
        if found.is_empty() {
            return Ok(false);
        }
        write_header(self.out, found.len());
        for (key, object, start) in found {
            write_key(self.out, key);
            let (stream, start) = (stream_of(&object), start.unwrap_or(StreamId::MAX));
            let count = stream.count(start, StreamId::MAX, most(read.count));
            self.out.array(count);
            for entry in stream.range(start, StreamId::MAX).take(count) {
                write_entry(self.out, entry);
            }
        }
        Ok(true)
    }
}

impl Apply<'_, '_> {
    /// `XREADGROUP`. Whether there was anything to tell: if not, nothing is written. Nobody is given anything if one of the
    /// groups is not there.
    pub(crate) fn read_group(&mut self, read: &StreamRead<'_>) -> Result<bool, ReplyError> {
        let group = read.group.expect("only what reads with a group writes");
        for (key, _) in read.streams() {
            let location = self.locate(key);
            self.bury(location, key);
            let object = self.peek(Kind::Stream, key)?;
            let is_there = object.is_some_and(|object| stream_of(&object).group(group.group).is_some());
            if !is_there {
                return Err(ReplyError::no_group_to_read(key, group.group));
            }
        }
        if let [_] = read.keys.iter().collect::<Vec<_>>()[..] {
            return self.read_group_of(read.keys.arg(0), read.from(0), group, most(read.count), |out| {
                write_header(out, 1);
            });
        }
        // How many streams there are to tell of is known at the end.
        let mut told = Vec::new();
        let mut count = 0;
        for (key, from) in read.streams() {
            let protocol = self.out.protocol();
            let mut out = ReplyWriter::new(&mut told, protocol);
            let mut one = Apply {
                keyspace: self.keyspace,
                local: self.local,
                db: self.db,
                out: &mut out,
            };
            count += usize::from(one.read_group_of(key, from, group, most(read.count), |_| {})?);
        }
        if count > 0 {
            write_header(self.out, count);
            self.out.raw(&told);
        }
        Ok(count > 0)
    }

    fn read_group_of(
        &mut self,
        key: &[u8],
        from: ReadFrom,
        read: GroupRead<'_>,
        most: usize,
        begin: impl FnOnce(&mut ReplyWriter<'_>),
    ) -> Result<bool, ReplyError> {
        let told = self.edit_stream(key, false, |edit, out| {
            let (now, extent) = (edit.now, edit.stream.extent());
            let told = edit.stream.with_group_and_entries(read.group, |group, stream| {
                // Where there is nothing new, nothing changes, and no consumer is made.
                let new = match from {
                    ReadFrom::After(id) if id != StreamId::MAX => None,
                    ReadFrom::After(_) | ReadFrom::New | ReadFrom::Last => {
                        let start = group.last_id.next().filter(|start| *start <= stream.last_id())?;
                        let count = stream.count(start, StreamId::MAX, most);
                        Some(Some((start, count)).filter(|(_, count)| *count > 0)?)
                    }
                };
                let found = group.find(read.consumer);
                let number = found.unwrap_or_else(|| group.add_consumer(read.consumer, now));
                group.see(number, now);
                begin(out);
                write_key(out, key);
                match (from, new) {
                    (_, Some((start, count))) => {
                        out.array(count);
                        let reader = (number, read.is_acknowledged);
                        deliver(group, stream, &extent, reader, (start, count), now, out);
                    }
                    (ReadFrom::After(id), None) => tell_pending(group, stream, number, id, now, most, out),
                    (ReadFrom::New | ReadFrom::Last, None) => unreachable!("there is something new"),
                }
                Some(found.is_none())
            });
            let told = told.expect("the caller has looked for the group");
            if told.is_some() {
                edit.mark();
            }
            Ok(told)
        })?;
        let told = told.expect("the caller has looked for the stream");
        if told == Some(true) {
            self.event(EventClasses::STREAM, "xgroup-createconsumer", key);
        }
        Ok(told.is_some())
    }
}

/// Tells what is pending for a consumer behind an id: of what was removed meanwhile, no more than the id.
fn tell_pending(
    group: &mut Group,
    stream: &Stream,
    consumer: ConsumerNumber,
    after: StreamId,
    now: UnixMillis,
    most: usize,
    out: &mut ReplyWriter<'_>,
) {
    let pending: Vec<StreamId> = match after.next() {
        Some(start) => group.consumer(consumer).pending_from(start).take(most).collect(),
        None => Vec::new(),
    };
    out.array(pending.len());
    for id in pending {
        match stream.find(id) {
            Some(entry) => {
                group.deliver_again(id, now);
                write_entry(out, entry);
            }
            None => {
                out.array(2);
                write_id(out, id);
                out.null_array();
            }
        }
    }
}

/// Tells so many entries from an id on, which become pending for a consumer unless they count as acknowledged.
fn deliver(
    group: &mut Group,
    stream: &Stream,
    extent: &Extent,
    (consumer, is_acknowledged): (ConsumerNumber, bool),
    (start, count): (StreamId, usize),
    now: UnixMillis,
    out: &mut ReplyWriter<'_>,
) {
    for entry in stream.range(start, StreamId::MAX).take(count) {
        group.entries_read = match group.entries_read {
            Some(read) if !extent.has_gap_from(entry.id) => Some(read.wrapping_add(1)),
            read if extent.added == 0 => read,
            _ => extent.rank_of(entry.id),
        };
        group.last_id = entry.id;
        write_entry(out, entry);
        if !is_acknowledged {
            let pending = Pending {
                consumer,
                delivered_at: now,
                deliveries: 1,
            };
            group.set_pending(entry.id, pending);
        }
    }
    group.activate(consumer, now);
}

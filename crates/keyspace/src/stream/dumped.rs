//! A stream as Redis writes it into its own files.

use super::entries::{ENTRY_BYTES_MAX, Stream};
use super::group::{Group, Pending};
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::object::Object;
use crate::value::Digits;
use command::NewId;
use ids::{StreamId, UnixMillis, Version};
use rdb::{StreamNumbers, StreamValue, StreamWriter};
use resp::ArgsRoom;

fn id(id: StreamId) -> rdb::EntryId {
    (id.ms, id.seq)
}

/// Times before 1970 are none of a stream's.
fn millis(time: UnixMillis) -> u64 {
    u64::try_from(time.0).unwrap_or(0)
}

fn time(millis: u64) -> UnixMillis {
    UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// What `DUMP` answers.
pub(crate) fn dumped(stream: &Stream) -> Vec<u8> {
    let mut payload = StreamWriter::new();
    let (mut left, mut right) = (Digits::default(), Digits::default());
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        let fields: Vec<(Vec<u8>, Vec<u8>)> = entry
            .fields()
            .map(|(field, value)| (field.text(&mut left).to_vec(), value.text(&mut right).to_vec()))
            .collect();
        payload.entry(
            id(entry.id),
            fields.iter().map(|(field, value)| (&field[..], &value[..])),
        );
    }
    let numbers = StreamNumbers {
        last_id: id(stream.last_id),
        first_id: stream.first().map_or((0, 0), |entry| id(entry.id)),
        max_deleted_id: id(stream.max_deleted),
        entries_added: stream.added,
    };
    let mut payload = payload.groups(numbers, stream.groups().len());
    for (name, group) in stream.groups() {
        let pending: Vec<(rdb::EntryId, u64, u64)> = group
            .pending_from(StreamId::MIN)
            .map(|(of, pending)| (id(of), millis(pending.delivered_at), pending.deliveries))
            .collect();
        payload.group(
            name,
            id(group.last_id),
            group.entries_read,
            pending.into_iter(),
            group.consumers_len(),
        );
        for (_, consumer) in group.consumers() {
            let pending: Vec<rdb::EntryId> = consumer.pending_from(StreamId::MIN).map(id).collect();
            payload.consumer(&consumer.name, millis(consumer.seen_at), pending.into_iter());
        }
    }
    payload.finish()
}

/// What `RESTORE` makes. `None` if an entry is longer than one may be.
pub(crate) fn restored(
    key: &[u8],
    value: &StreamValue,
    limits: &EncodingLimits,
    version: Version,
) -> Option<Object> {
    let id = |(ms, seq): rdb::EntryId| StreamId::new(ms, seq);
    let mut stream = Stream::default();
    let mut room = ArgsRoom::default();
    for entry in &value.entries {
        let bytes = entry
            .fields
            .iter()
            .map(|(field, value)| field.len() + value.len());
        if bytes.sum::<usize>() > ENTRY_BYTES_MAX {
            return None;
        }
        let fields = room.fill(entry.fields.iter().flat_map(|(field, value)| [field, value]));
        let added = stream.add(NewId::Exactly(id(entry.id)), UnixMillis(0), fields, limits);
        added.ok()?;
    }
    stream.last_id = id(value.last_id);
    stream.max_deleted = id(value.max_deleted_id);
    stream.added = value.entries_added;
    for of in &value.groups {
        let mut group = Group::new(id(of.last_id), of.entries_read);
        let mut numbers = Vec::with_capacity(of.consumers.len());
        for consumer in &of.consumers {
            let seen_at = time(consumer.seen_at_ms);
            let number = group.add_consumer(&consumer.name, seen_at);
            group.set_times(number, seen_at, consumer.active_at_ms.map(time));
            numbers.push(number);
        }
        for pending in &of.pending {
            let delivered = Pending {
                consumer: numbers[pending.consumer],
                delivered_at: time(pending.delivered_at_ms),
                deliveries: pending.delivered,
            };
            group.set_pending(id(pending.id), delivered);
        }
        stream.add_group(&of.name, group);
    }
    Some(Object::large(key, Large::Stream(stream), None, version))
}

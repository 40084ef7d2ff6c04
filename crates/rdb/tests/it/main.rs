//! Tests of reading and writing, through the interface.

mod golden;
mod hostile;
mod old_forms;
mod reading;
mod writing;

use rdb::{
    Consumer, EntryId, PayloadValue, PayloadWriter, Pending, StreamEntry, StreamGroup, StreamNumbers,
    StreamValue, StreamWriter, ValueError, open, read,
};

/// Byte strings.
fn bytes<const N: usize>(of: [&str; N]) -> Vec<Vec<u8>> {
    of.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Pairs of byte strings.
fn pairs<const N: usize>(of: [(&str, &str); N]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |(a, b): (&str, &str)| (a.as_bytes().to_vec(), b.as_bytes().to_vec());
    of.map(pair).to_vec()
}

/// Members and their scores.
fn scored<const N: usize>(of: [(&str, f64); N]) -> Vec<(Vec<u8>, f64)> {
    of.map(|(member, score)| (member.as_bytes().to_vec(), score))
        .to_vec()
}

/// An entry of a stream.
fn entry<const N: usize>(id: EntryId, fields: [(&str, &str); N]) -> StreamEntry {
    StreamEntry {
        id,
        fields: pairs(fields),
    }
}

/// The value of a payload.
fn value(payload: &[u8]) -> Result<PayloadValue, ValueError> {
    read(open(payload).expect("it is a payload"))
}

/// What of a payload is the value.
fn body(payload: &[u8]) -> &[u8] {
    open(payload).expect("it is a payload")
}

/// Any value as a payload.
fn write(value: &PayloadValue) -> Vec<u8> {
    match value {
        PayloadValue::String(bytes) => PayloadWriter::string(bytes).finish(),
        PayloadValue::List(elements) => write_each(PayloadWriter::list(elements.len()), elements),
        PayloadValue::Set(members) => write_each(PayloadWriter::set(members.len()), members),
        PayloadValue::SortedSet(members) => {
            let mut writer = PayloadWriter::sorted_set(members.len());
            for (member, score) in members {
                writer.element(member);
                writer.score(*score);
            }
            writer.finish()
        }
        PayloadValue::Hash(fields) => {
            let mut writer = PayloadWriter::hash(fields.len());
            for (field, value) in fields {
                writer.element(field);
                writer.element(value);
            }
            writer.finish()
        }
        PayloadValue::Stream(stream) => write_stream(stream),
    }
}

fn write_each(mut writer: PayloadWriter, elements: &[Vec<u8>]) -> Vec<u8> {
    for element in elements {
        writer.element(element);
    }
    writer.finish()
}

fn write_stream(stream: &StreamValue) -> Vec<u8> {
    let mut writer = StreamWriter::new();
    for entry in &stream.entries {
        let fields = entry.fields.iter();
        writer.entry(
            entry.id,
            fields.map(|(field, value)| (field.as_slice(), value.as_slice())),
        );
    }
    let numbers = StreamNumbers {
        last_id: stream.last_id,
        first_id: stream.first_id,
        max_deleted_id: stream.max_deleted_id,
        entries_added: stream.entries_added,
    };
    let mut writer = writer.groups(numbers, stream.groups.len());
    for group in &stream.groups {
        let pending = group.pending.iter();
        writer.group(
            &group.name,
            group.last_id,
            group.entries_read,
            pending.map(|pending| (pending.id, pending.delivered_at_ms, pending.delivered)),
            group.consumers.len(),
        );
        for (place, consumer) in group.consumers.iter().enumerate() {
            let pending: Vec<EntryId> = group
                .pending
                .iter()
                .filter(|pending| pending.consumer == place)
                .map(|pending| pending.id)
                .collect();
            writer.consumer(&consumer.name, consumer.seen_at_ms, pending.into_iter());
        }
    }
    writer.finish()
}

/// A value as it comes back: when consumers were active is not written.
fn without_active(mut value: PayloadValue) -> PayloadValue {
    if let PayloadValue::Stream(stream) = &mut value {
        for consumer in stream.groups.iter_mut().flat_map(|group| &mut group.consumers) {
            consumer.active_at_ms = Some(consumer.seen_at_ms);
        }
    }
    value
}

/// That what is read is written so that the same is read.
fn check_round_trip(value: PayloadValue) {
    let again = rdb::read(body(&write(&value)));
    assert_eq!(again, Ok(without_active(value)));
}

/// The stream with three groups that is among the payloads of Redis.
fn stream_with_groups() -> StreamValue {
    const SEEN: u64 = 1_796_078_470_253;
    const DAY: u64 = 1_700_000_000_000;
    let id = |ms, seq| (DAY + ms, seq);
    let pending = |id, delivered, consumer| Pending {
        id,
        delivered_at_ms: SEEN,
        delivered,
        consumer,
    };
    let consumer = |name: &str| Consumer {
        name: name.as_bytes().to_vec(),
        seen_at_ms: SEEN,
        active_at_ms: Some(SEEN),
    };
    StreamValue {
        entries: vec![
            entry(id(1, 3), [("temp", "21"), ("place", "roof")]),
            entry(id(3, 1), [("temp", "23"), ("place", "roof")]),
            entry(id(5, 3), [("temp", "25"), ("place", "roof")]),
            entry(id(6, 2), [("temp", "26"), ("place", "roof")]),
            entry(id(100, 0), [("other", "yes")]),
            entry(id(100, 1), [("temp", "1"), ("place", "x"), ("extra", "z")]),
        ],
        last_id: id(100, 1),
        first_id: id(1, 3),
        max_deleted_id: id(7, 1),
        entries_added: 9,
        groups: vec![
            StreamGroup {
                name: b"late".to_vec(),
                last_id: id(100, 1),
                entries_read: None,
                pending: vec![],
                consumers: vec![],
            },
            StreamGroup {
                name: b"middle".to_vec(),
                last_id: id(5, 3),
                entries_read: None,
                pending: vec![pending(id(5, 3), 1, 0)],
                consumers: vec![consumer("1")],
            },
            StreamGroup {
                name: b"readers".to_vec(),
                last_id: id(100, 0),
                entries_read: None,
                pending: vec![
                    pending(id(1, 3), 2, 1),
                    pending(id(4, 0), 1, 0),
                    pending(id(5, 3), 1, 1),
                    pending(id(6, 2), 1, 1),
                    pending(id(100, 0), 1, 0),
                ],
                consumers: vec![consumer("alice"), consumer("bob"), consumer("idle")],
            },
        ],
    }
}

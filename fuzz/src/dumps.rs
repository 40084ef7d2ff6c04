//! Values as Redis writes them, which clients send with `RESTORE`.

use rdb::{PayloadValue, PayloadWriter, StreamNumbers, StreamWriter};

/// Bytes that a value may come to here.
const MEMORY_MAX: usize = 16 << 20;

/// Any bytes are a value or an error, within the memory that they may come to; what was read and is written again is read as the same.
pub fn dumps(data: &[u8]) {
    let _ = rdb::open(data);
    let Ok(value) = rdb::read_within(data, MEMORY_MAX) else {
        return;
    };
    let written = match &value {
        PayloadValue::String(bytes) => PayloadWriter::string(bytes),
        PayloadValue::List(elements) => of(PayloadWriter::list(elements.len()), elements.iter()),
        PayloadValue::Set(members) => of(PayloadWriter::set(members.len()), members.iter()),
        PayloadValue::Hash(fields) => of(
            PayloadWriter::hash(fields.len()),
            fields.iter().flat_map(|(field, value)| [field, value]),
        ),
        PayloadValue::SortedSet(members) => {
            let mut writer = PayloadWriter::sorted_set(members.len());
            for (member, score) in members {
                writer.element(member);
                writer.score(*score);
            }
            writer
        }
        // What is written of it does not say when consumers were active, and what is read may name entries that are not there.
        PayloadValue::Stream(_) => return,
    };
    let written = written.finish();
    let body = rdb::open(&written).expect("it was written a moment ago");
    assert_eq!(rdb::read(body), Ok(value));
}

fn of<'a>(mut writer: PayloadWriter, elements: impl Iterator<Item = &'a Vec<u8>>) -> PayloadWriter {
    elements.for_each(|element| writer.element(element));
    writer
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let elements: Vec<Vec<u8>> = (0..6)
        .map(|number| format!("{}", number * 900).into_bytes())
        .collect();
    let mut sorted = PayloadWriter::sorted_set(1);
    sorted.element(b"member");
    sorted.score(1.5);
    let mut stream = StreamWriter::new();
    stream.entry((5, 1), [(&b"field"[..], &b"value"[..])].into_iter());
    stream.entry((5, 2), [(&b"other"[..], &b"17"[..])].into_iter());
    let numbers = StreamNumbers {
        last_id: (5, 2),
        first_id: (5, 1),
        max_deleted_id: (0, 0),
        entries_added: 2,
    };
    let mut stream = stream.groups(numbers, 1);
    stream.group(b"group", (5, 1), Some(1), [((5, 1), 1_000, 1)].into_iter(), 1);
    stream.consumer(b"consumer", 1_000, [(5, 1)].into_iter());
    let payloads = [
        PayloadWriter::string(b"a value").finish(),
        PayloadWriter::string(b"-12345").finish(),
        of(PayloadWriter::list(6), elements.iter()).finish(),
        of(PayloadWriter::set(6), elements.iter()).finish(),
        of(PayloadWriter::hash(3), elements.iter()).finish(),
        sorted.finish(),
        stream.finish(),
        // An intset, a listpack of a hash, and a string that LZF has made of a few bytes.
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0".to_vec(),
        b"\x10\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff".to_vec(),
        b"\0\xc3\x05\x0e\x01aa\xe0\x03\0".to_vec(),
    ];
    let bodies = payloads
        .iter()
        .map(|payload| rdb::open(payload).unwrap_or(payload).to_vec());
    bodies.collect()
}

//! What is written: read again, and byte for byte what Redis writes where it writes the same form.

use super::*;
use golden::*;

#[test]
fn everything_that_redis_wrote_comes_back() {
    for payload in ALL {
        check_round_trip(value(payload).unwrap());
    }
}

#[test]
fn plain_forms_are_written_as_redis_writes_them() {
    for payload in [
        STRING_RAW,
        STRING_INT8,
        STRING_INT16,
        STRING_INT32,
        STRING_INT64,
        STRING_EMPTY,
        STRING_LONG,
        SET_TABLE,
        SORTED_SET_SKIPLIST,
        HASH_TABLE,
    ] {
        let ours = write(&value(payload).unwrap());
        assert_eq!(body(&ours), body(payload));
        assert_eq!(
            ours[ours.len() - 10..ours.len() - 8],
            [9, 0],
            "old servers take it"
        );
    }
}

#[test]
fn streams_are_written_as_redis_writes_them() {
    let ours = write(&value(STREAM_UNCOMPRESSED).unwrap());
    // Only the number of listpacks takes more bytes, since it is filled in later.
    assert_eq!(ours[1..10], *b"\x81\0\0\0\0\0\0\0\x01");
    let ours_body = [&ours[..1], b"\x01", &body(&ours)[10..]].concat();
    assert_eq!(ours_body, body(STREAM_UNCOMPRESSED));
    assert_eq!(
        ours[ours.len() - 10..ours.len() - 8],
        [10, 0],
        "5.0 would not take it"
    );
}

/// What Redis 7.0.15 took for the values that they are of.
#[test]
fn payloads_that_redis_took_are_written_still() {
    let list = PayloadValue::List(bytes(["a", "-1", "300", "70000", "", "b c"]));
    assert_eq!(
        write(&list),
        b"\x01\x06\x01a\xC0\xFF\xC1\x2C\x01\xC2\x70\x11\x01\0\0\x03b c\x09\0\xB1\xCF\x8A\xE1\xC1\x06\xE7\x8F"
    );
    // The sum stands for all of it.
    let stream = PayloadValue::Stream(Box::new(stream_with_groups()));
    let payload = write(&stream);
    assert_eq!(payload[payload.len() - 8..], *b"e\xB4\xE1^\x8F\xF9\xCE5");
}

/// How many listpacks a stream was written in.
fn parts(payload: &[u8]) -> u64 {
    let count = payload[2..10].try_into();
    u64::from_be_bytes(count.expect("they are eight bytes"))
}

/// A stream of so many entries whose only value is as long.
fn uniform(entries: usize, value_bytes: usize) -> Vec<u8> {
    let text = "x".repeat(value_bytes);
    let entries: Vec<StreamEntry> = (0..entries)
        .map(|at| entry((5, at as u64 + 1), [("f", &text[..])]))
        .collect();
    let stream = StreamValue {
        last_id: (5, entries.len() as u64),
        first_id: (5, 1),
        max_deleted_id: (0, 0),
        entries_added: entries.len() as u64,
        entries,
        groups: vec![],
    };
    let payload = write_stream(&stream);
    assert_eq!(value(&payload), Ok(PayloadValue::Stream(Box::new(stream))));
    payload
}

#[test]
fn a_listpack_is_full_at_a_hundred_entries_or_four_kilobytes() {
    assert_eq!(parts(&uniform(100, 1)), 1);
    assert_eq!(parts(&uniform(101, 1)), 2);
    assert_eq!(parts(&uniform(250, 1)), 3);
    assert_eq!(parts(&uniform(4, 1300)), 2);
    assert_eq!(parts(&uniform(3, 10_000)), 3);
}

#[test]
fn numbers_of_any_size_stand_in_streams() {
    let numbers = [
        0,
        1,
        -1,
        127,
        128,
        4095,
        4096,
        -4096,
        -4097,
        1 << 15,
        1 << 23,
        1 << 31,
        i64::MIN,
    ];
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let entries: Vec<StreamEntry> = (1..)
        .zip(&texts)
        .map(|(at, text)| entry((at, u64::MAX / at), [("n", &text[..]), (&text[..], "007")]))
        .collect();
    check_round_trip(PayloadValue::Stream(Box::new(StreamValue {
        last_id: (u64::MAX, u64::MAX),
        first_id: (1, u64::MAX),
        max_deleted_id: (3, 3),
        entries_added: u64::MAX,
        entries,
        groups: vec![],
    })));
}

#[test]
fn entries_may_have_no_fields() {
    let mut writer = StreamWriter::new();
    writer.entry((1, 1), std::iter::empty());
    writer.entry((1, 2), std::iter::once((&b"f"[..], &b"v"[..])));
    let numbers = StreamNumbers {
        last_id: (1, 2),
        first_id: (1, 1),
        max_deleted_id: (0, 0),
        entries_added: 2,
    };
    let payload = writer.groups(numbers, 0).finish();
    let Ok(PayloadValue::Stream(stream)) = value(&payload) else {
        panic!("it is a stream")
    };
    assert_eq!(stream.entries, [entry((1, 1), []), entry((1, 2), [("f", "v")])]);
}

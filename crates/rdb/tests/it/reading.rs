//! What Redis wrote, as it is read.

use super::*;
use golden::*;

/// How often the long elements go round the printable characters.
fn printable(count: usize) -> Vec<u8> {
    (0..count).map(|at| 33 + (at * 7 % 90) as u8).collect()
}

#[test]
fn strings_are_read() {
    let long = [&b"abcdefgh".repeat(12)[..], &[b'x'; 50]].concat();
    let every: Vec<u8> = (0..100).collect();
    for (payload, string) in [
        (STRING_RAW, &b"hello"[..]),
        (STRING_INT8, b"-100"),
        (STRING_INT16, b"30000"),
        (STRING_INT32, b"-2000000000"),
        (STRING_INT64, b"9223372036854775807"),
        (STRING_LZF, &long),
        (STRING_EMPTY, b""),
        (STRING_LONG, &every),
    ] {
        assert_eq!(value(payload), Ok(PayloadValue::String(string.to_vec())));
    }
}

#[test]
fn lists_are_read() {
    let fives = "5".repeat(30);
    let nines = "9".repeat(18);
    let list = bytes([
        "one", "2", "-300", "four", &fives, "six", "70000", "", &nines, "ten",
    ]);
    assert_eq!(value(LIST_NODES), Ok(PayloadValue::List(list)));
    let mut list = bytes(["a", "", "c", "12"]);
    list[1] = printable(230);
    assert_eq!(value(LIST_PLAIN), Ok(PayloadValue::List(list)));
}

#[test]
fn sets_are_read() {
    for (payload, members) in [
        (SET_INTSET_16, bytes(["-2", "1", "3", "300"])),
        (SET_INTSET_32, bytes(["-70000", "1", "3"])),
        (
            SET_INTSET_64,
            bytes(["-9223372036854775808", "3", "1099511627776"]),
        ),
        (SET_TABLE, bytes(["17", "a", "", "b"])),
    ] {
        assert_eq!(value(payload), Ok(PayloadValue::Set(members)));
    }
}

#[test]
fn sorted_sets_are_read() {
    let mut members = scored([
        ("low", f64::NEG_INFINITY),
        ("12", -0.1),
        ("one", 1.0),
        ("two", 2.5),
        ("far", 1e300),
        ("high", f64::INFINITY),
    ]);
    assert_eq!(
        value(SORTED_SET_LISTPACK),
        Ok(PayloadValue::SortedSet(members.clone()))
    );
    members.reverse();
    assert_eq!(value(SORTED_SET_SKIPLIST), Ok(PayloadValue::SortedSet(members)));
}

#[test]
fn hashes_are_read() {
    let long = "v".repeat(60);
    let fields = pairs([
        ("name", "value"),
        ("n", "12345"),
        ("n2", "-1"),
        ("n3", "1099511627776"),
        ("n4", "1048576"),
        ("long", &long),
        ("", "e"),
    ]);
    assert_eq!(value(HASH_LISTPACK), Ok(PayloadValue::Hash(fields)));
    let fields = pairs([("n", "12345"), ("name", "value"), ("", "e"), ("n2", "-1")]);
    assert_eq!(value(HASH_TABLE), Ok(PayloadValue::Hash(fields)));
}

#[test]
fn a_stream_without_entries_is_read() {
    let stream = StreamValue {
        entries: vec![],
        last_id: (5, 1),
        first_id: (0, 0),
        max_deleted_id: (5, 1),
        entries_added: 1,
        groups: vec![],
    };
    assert_eq!(value(STREAM_EMPTY), Ok(PayloadValue::Stream(Box::new(stream))));
}

#[test]
fn a_stream_with_groups_is_read_without_its_deleted_entries() {
    let stream = stream_with_groups();
    assert_eq!(value(STREAM_GROUPS), Ok(PayloadValue::Stream(Box::new(stream))));
}

#[test]
fn what_a_group_has_read_is_read() {
    let Ok(PayloadValue::Stream(stream)) = value(STREAM_COUNTED) else {
        panic!("it is a stream")
    };
    let group = &stream.groups[0];
    assert_eq!((group.last_id, group.entries_read), ((7, 2), Some(2)));
    assert_eq!(group.pending[1].id, (7, 2));
    let last = &stream.entries[3];
    assert_eq!(last.id, (8, 0));
    assert_eq!(last.fields[0], (b"f".to_vec(), printable(130)));
    assert_eq!(
        last.fields[1],
        (b"f".to_vec(), b"twice".to_vec()),
        "a field may be there twice"
    );
}

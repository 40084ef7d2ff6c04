//! Forms that Redis 7.0 reads and does not write, or that 7.2 writes, made by hand. Values in each form but those of 7.2 were also
//! given to `RESTORE` of Redis 7.0.15, which took them for the same.

use super::*;

/// A short string.
fn string(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 64);
    [&[bytes.len() as u8], bytes].concat()
}

/// A type and what follows, read.
fn read_parts(parts: &[&[u8]]) -> Result<PayloadValue, ValueError> {
    read(&parts.concat())
}

const ZIPLIST: &[u8] = b"\x19\0\0\0\x15\0\0\0\x04\0\0\x03abc\x05\xF8\x02\xC0\x00\x80\x04\xFE\x80\xFF";
const LISTPACK: &[u8] = b"\x11\0\0\0\x04\0\x81a\x02\x07\x01\x81b\x02\x08\x01\xFF";

#[test]
fn lists_of_old_servers_are_read() {
    let list = bytes(["abc", "7", "-32768", "-128"]);
    assert_eq!(
        read_parts(&[b"\x0A", &string(ZIPLIST)]),
        Ok(PayloadValue::List(list.clone()))
    );
    // Empty ones are passed over.
    let empty = string(b"\x0B\0\0\0\x0A\0\0\0\0\0\xFF");
    let more = string(b"\x10\0\0\0\x0A\0\0\0\x01\0\0\xF0\0\0\x80\xFF");
    let both = [list, bytes(["-8388608"])].concat();
    assert_eq!(
        read_parts(&[b"\x0E\x03", &string(ZIPLIST), &empty, &more]),
        Ok(PayloadValue::List(both))
    );
    assert!(read_parts(&[b"\x0E\x01", &empty]).is_err());
    assert!(read_parts(&[b"\x0A", &empty]).is_err());
    assert!(read_parts(&[b"\x0E\0"]).is_err());
    assert_eq!(
        read(b"\x01\x03\x01a\xC0\x07\xC3\x05\x0A\x01ab\xC0\x01"),
        Ok(PayloadValue::List(bytes(["a", "7", "ababababab"])))
    );
}

#[test]
fn hashes_of_old_servers_are_read() {
    assert_eq!(
        read_parts(&[b"\x0D", &string(ZIPLIST)]),
        Ok(PayloadValue::Hash(pairs([("abc", "7"), ("-32768", "-128")])))
    );
    let zipmap = string(b"\x02\x01a\x02\x01bc.\x01d\0\0\xFF");
    assert_eq!(
        read_parts(&[b"\x09", &zipmap]),
        Ok(PayloadValue::Hash(pairs([("a", "bc"), ("d", "")])))
    );
    assert!(read_parts(&[b"\x09", &string(b"\0\xFF")]).is_err());
    assert_eq!(
        read_parts(&[b"\x10", &string(LISTPACK)]),
        Ok(PayloadValue::Hash(pairs([("a", "7"), ("b", "8")])))
    );
}

#[test]
fn sorted_sets_of_old_servers_are_read() {
    assert_eq!(
        read_parts(&[b"\x0C", &string(ZIPLIST)]),
        Ok(PayloadValue::SortedSet(scored([
            ("abc", 7.0),
            ("-32768", -128.0)
        ])))
    );
    let members = [
        ("a", 1.5),
        ("b", f64::INFINITY),
        ("c", f64::NEG_INFINITY),
        ("d", -1e10),
    ];
    assert_eq!(
        read(b"\x03\x04\x01a\x031.5\x01b\xFE\x01c\xFF\x01d\x05-1e10"),
        Ok(PayloadValue::SortedSet(scored(members)))
    );
    assert!(read(b"\x03\x01\x01a\xFD").is_err(), "it is no number");
    assert!(read(b"\x03\x01\x01a\x03nan").is_err());
    assert!(read(b"\x03\x01\x01a\0").is_err());
    let nan = f64::NAN.to_le_bytes();
    assert!(read_parts(&[b"\x05\x01\x01a", &nan]).is_err());
}

#[test]
fn sets_of_redis_7_2_are_read() {
    assert_eq!(
        read_parts(&[b"\x14", &string(LISTPACK)]),
        Ok(PayloadValue::Set(bytes(["a", "7", "b", "8"])))
    );
}

#[test]
fn lists_in_listpacks_have_long_elements_between_them() {
    let list = read_parts(&[
        b"\x12\x03\x02",
        &string(LISTPACK),
        b"\x01\x03abc\x02",
        &string(LISTPACK),
    ]);
    assert_eq!(
        list,
        Ok(PayloadValue::List(bytes([
            "a", "7", "b", "8", "abc", "a", "7", "b", "8"
        ])))
    );
    assert!(read(b"\x12\x01\x01\0").is_err(), "a long element is not empty");
    assert!(read(b"\x12\x01\x03\x01a").is_err());
    assert!(read_parts(&[b"\x12\x01\x02", &string(b"\x07\0\0\0\0\0\xFF")]).is_err());
}

/// Numbers below 128 in a listpack.
fn listpack(numbers: &[u8]) -> Vec<u8> {
    let elements: Vec<u8> = numbers.iter().flat_map(|number| [*number, 1]).collect();
    let length = elements.len() as u8 + 7;
    [&[length, 0, 0, 0, numbers.len() as u8, 0], &elements[..], &[0xFF]].concat()
}

/// A stream of 9-1, 9-2 and 10-1, up to its groups, as far as Redis 5.0 writes it.
fn stream(kind: u8, last_id: [u8; 2]) -> Vec<u8> {
    let part = listpack(&[3, 0, 1, 5, 0, 2, 0, 0, 7, 4, 2, 0, 1, 7, 4, 2, 1, 0, 7, 4]);
    let id = b"\x10\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01";
    [&[kind, 1], &id[..], &string(&part), &[3], &last_id].concat()
}

fn unbox(value: Result<PayloadValue, ValueError>) -> StreamValue {
    match value {
        Ok(PayloadValue::Stream(stream)) => *stream,
        other => panic!("{other:?} is no stream"),
    }
}

#[test]
fn a_stream_of_redis_5_gets_what_it_does_not_say() {
    let group = |name: u8, id: [u8; 2]| [1, name, id[0], id[1], 0, 0];
    let groups = [
        group(b'a', [9, 0]),
        group(b'b', [9, 1]),
        group(b'c', [9, 2]),
        group(b'd', [10, 1]),
        group(b'e', [11, 0]),
    ];
    let stream = unbox(read_parts(&[&stream(15, [10, 1]), b"\x05", &groups.concat()]));
    let ids: Vec<EntryId> = stream.entries.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [(9, 1), (9, 2), (10, 1)]);
    assert_eq!(stream.entries[0], entry((9, 1), [("5", "7")]));
    assert_eq!((stream.first_id, stream.max_deleted_id), ((9, 1), (0, 0)));
    assert_eq!(stream.entries_added, 3);
    let read: Vec<Option<u64>> = stream.groups.iter().map(|group| group.entries_read).collect();
    assert_eq!(read, [Some(0), Some(1), None, Some(3), None]);
}

#[test]
fn a_stream_of_redis_5_without_entries_has_no_first_one() {
    let stream = unbox(read(b"\x0F\0\0\x0A\x01\x01\x01a\x09\0\0\0"));
    assert_eq!((stream.first_id, stream.last_id), ((0, 0), (10, 1)));
    assert_eq!(stream.entries_added, 0);
    assert_eq!(stream.groups[0].entries_read, Some(0));
}

/// A group `g` of one pending entry and these consumers, as from 7.2 on.
fn group_of(consumers: &[&[u8]]) -> Vec<u8> {
    let id = [&[0; 7][..], &[9], &[0; 7], &[2]].concat();
    let pending = [&id[..], &[0x10, 0x27, 0, 0, 0, 0, 0, 0], &[3]].concat();
    let head = [b"\x01g\x09\x02\x02\x01", &pending[..], &[consumers.len() as u8]].concat();
    [head, consumers.concat()].concat()
}

/// A consumer that was seen at 5, with or without the entry.
fn consumer(name: u8, active: [u8; 8], has_entry: bool) -> Vec<u8> {
    let id = [&[0; 7][..], &[9], &[0; 7], &[2]].concat();
    let pending = if has_entry {
        [&[1], &id[..]].concat()
    } else {
        vec![0]
    };
    [&[1, name], &[5, 0, 0, 0, 0, 0, 0, 0][..], &active, &pending].concat()
}

/// A stream of 7.2 of these groups.
fn stream_7_2(groups: &[Vec<u8>]) -> Result<PayloadValue, ValueError> {
    let numbers = b"\x09\x01\0\0\x03";
    let count = [groups.len() as u8];
    read_parts(&[&stream(21, [10, 1]), numbers, &count, &groups.concat()])
}

const NEVER: [u8; 8] = [0xFF; 8];
const SIX: [u8; 8] = [6, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_stream_of_redis_7_2_says_when_consumers_were_active() {
    let consumers = [consumer(b'a', NEVER, false), consumer(b'b', SIX, true)];
    let stream = unbox(stream_7_2(&[group_of(&[&consumers[0], &consumers[1]])]));
    let group = &stream.groups[0];
    let pending = Pending {
        id: (9, 2),
        delivered_at_ms: 10_000,
        delivered: 3,
        consumer: 1,
    };
    assert_eq!(group.pending, [pending]);
    assert_eq!(group.entries_read, Some(2));
    let active: Vec<Option<u64>> = group.consumers.iter().map(|one| one.active_at_ms).collect();
    assert_eq!(active, [None, Some(6)]);
    assert!(group.consumers.iter().all(|one| one.seen_at_ms == 5));
}

#[test]
fn a_pending_entry_has_one_consumer() {
    let (with, without) = (consumer(b'a', SIX, true), consumer(b'b', SIX, false));
    let other_with = consumer(b'b', SIX, true);
    assert!(stream_7_2(&[group_of(&[&with, &without])]).is_ok());
    assert!(
        stream_7_2(&[group_of(&[&with, &other_with])]).is_err(),
        "it has two"
    );
    assert!(stream_7_2(&[group_of(&[&without])]).is_err(), "it has none");
    let mut unknown = with.clone();
    *unknown.last_mut().unwrap() = 1;
    assert!(
        stream_7_2(&[group_of(&[&with, &unknown])]).is_err(),
        "the group does not have it"
    );
}

#[test]
fn groups_and_consumers_have_one_name_each() {
    let consumer = consumer(b'a', SIX, true);
    let group = group_of(&[&consumer]);
    assert!(stream_7_2(std::slice::from_ref(&group)).is_ok());
    assert!(stream_7_2(&[group.clone(), group]).is_err());
    let idle = self::consumer(b'a', SIX, false);
    assert!(stream_7_2(&[group_of(&[&consumer, &idle])]).is_err());
}

#[test]
fn a_stream_is_in_order_and_complete() {
    let part = |numbers: &[u8], count: u8, last: [u8; 2]| {
        let id = b"\x10\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01";
        let part = string(&listpack(numbers));
        read_parts(&[&[15, 1], id, &part, &[count], &last, &[0]])
    };
    let good = [2, 0, 1, 5, 0, 2, 0, 0, 7, 4, 0, 0, 1, 1, 6, 7, 6];
    assert_eq!(
        unbox(part(&good, 2, [9, 2])).entries[1],
        entry((9, 2), [("6", "7")])
    );
    assert!(part(&good, 1, [9, 2]).is_err(), "the length");
    assert!(part(&good, 2, [9, 1]).is_err(), "the last ID");
    for (at, number, what) in [
        (0, 3, "entries"),
        (1, 1, "deleted entries"),
        (2, 2, "fields"),
        (4, 1, "the end of the fields"),
        (9, 5, "elements of an entry"),
        (12, 0, "the order of IDs"),
        (13, 2, "fields of an entry"),
        (16, 7, "elements of an entry"),
    ] {
        let mut other = good;
        other[at] = number;
        assert!(part(&other, 2, [9, 2]).is_err(), "{what}");
    }
    // The first is deleted, and the other one stands alone.
    let deleted = [1, 1, 1, 5, 0, 3, 0, 0, 7, 4, 0, 0, 1, 1, 6, 7, 6];
    assert_eq!(
        unbox(part(&deleted, 1, [9, 2])).entries,
        [entry((9, 2), [("6", "7")])]
    );
    let zero = read(
        &[
            &[15, 1, 16],
            &[0; 16][..],
            &string(&listpack(&good)),
            &[2, 9, 2, 0],
        ]
        .concat(),
    );
    assert!(zero.is_err(), "0-0 is no ID");
}

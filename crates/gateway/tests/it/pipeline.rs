//! Replies in the order of requests.

use gateway::Pipeline;
use resp::{Protocol, ReplyWriter, Rope};

#[test]
fn replies_leave_in_the_order_of_requests_whatever_is_finished_first() {
    let mut pipeline = Pipeline::default();
    pipeline.target().extend_from_slice(b"a");
    let first = pipeline.reserve(false);
    pipeline.target().extend_from_slice(b"c");
    let second = pipeline.reserve(false);
    let third = pipeline.reserve(false);
    pipeline.target().extend_from_slice(b"f");
    pipeline.complete(third, b"e");
    pipeline.complete(second, b"d");
    assert_eq!(pipeline.ready(), b"a");
    pipeline.complete(first, b"b");
    assert_eq!(pipeline.ready(), b"abcdef");
    assert!(pipeline.is_settled());
    pipeline.sent(2);
    assert_eq!(pipeline.ready(), b"cdef");
    assert_eq!(pipeline.held_bytes(), 4);
}

#[test]
fn a_message_passes_only_a_reply_that_nothing_follows() {
    let mut pipeline = Pipeline::default();
    let first = pipeline.reserve(false);
    pipeline.message_target().extend_from_slice(b"m");
    assert_eq!(pipeline.ready(), b"m");
    pipeline.target().extend_from_slice(b"b");
    pipeline.message_target().extend_from_slice(b"n");
    assert_eq!(pipeline.ready(), b"m");
    pipeline.complete(first, b"a");
    assert_eq!(pipeline.ready(), b"mabn");
}

#[test]
fn a_silent_place_keeps_the_order_and_says_nothing() {
    let mut pipeline = Pipeline::default();
    let silent = pipeline.reserve(true);
    pipeline.target().extend_from_slice(b"x");
    pipeline.complete(silent, b"dropped");
    assert_eq!(pipeline.ready(), b"x");
}

#[test]
fn a_large_reply_keeps_its_place_and_is_not_copied() {
    let mut pipeline = Pipeline::default();
    pipeline.target().extend_from_slice(b"ab");
    let first = pipeline.reserve(false);
    pipeline.target().extend_from_slice(b"c");
    let second = pipeline.reserve(false);
    pipeline.target().extend_from_slice(b"d");
    pipeline.sent(1);
    let large = |byte: u8| vec![byte; Pipeline::LARGE_BYTES];
    let (one, two) = (large(b'1'), large(b'2'));
    let addresses = [one.as_ptr(), two.as_ptr()];
    pipeline.complete_with(second, two);
    pipeline.complete_with(first, one);
    assert!(pipeline.is_settled());
    pipeline.target().extend_from_slice(b"e");
    let mut sent = Vec::new();
    let mut parts = Vec::new();
    while pipeline.ready_bytes() > 0 {
        parts.push(pipeline.ready().as_ptr());
        assert_eq!(pipeline.held_bytes(), pipeline.ready_bytes());
        let count = pipeline.ready().len().min(50_000);
        sent.extend_from_slice(&pipeline.ready()[..count]);
        pipeline.sent(count);
    }
    assert!(pipeline.ready().is_empty());
    let expected = [&b"b"[..], &large(b'1'), b"c", &large(b'2'), b"de"].concat();
    assert!(sent == expected);
    assert!(addresses.iter().all(|address| parts.contains(address)));
}

#[test]
fn a_long_value_is_sent_from_where_it_is_and_counts_until_it_was() {
    let value = bytes::Bytes::from(vec![b'v'; 3 * Pipeline::LARGE_BYTES]);
    let text = |before: &[u8]| [before, b"$196608\r\n", &value, b"\r\n"].concat();
    // At once, behind a place that waits, and in a place that another waits before.
    let mut pipeline = Pipeline::default();
    pipeline.writer(Protocol::Resp2).bulk_shared(&value);
    let first = pipeline.reserve(false);
    pipeline.writer(Protocol::Resp2).bulk_shared(&value);
    let length = pipeline.target().len();
    pipeline.writer(Protocol::Resp2).bulk_shared(&value);
    pipeline.take_back(length);
    let second = pipeline.reserve(false);
    let mut reply = Rope::default();
    ReplyWriter::sharing(&mut reply, Protocol::Resp2).bulk_shared(&value);
    pipeline.complete_shared(second, reply.freeze());
    assert_eq!(pipeline.stuck_bytes(), 2 * text(b"").len());
    assert_eq!(pipeline.ready_bytes(), text(b"").len());
    pipeline.complete(first, b"+OK\r\n");
    assert_eq!(pipeline.stuck_bytes(), 0);
    let (mut sent, mut from_value) = (Vec::new(), 0);
    while pipeline.ready_bytes() > 0 {
        assert_eq!(pipeline.held_bytes(), 3 * text(b"").len() + 5 - sent.len());
        let ready = pipeline.ready();
        from_value += usize::from(ready.as_ptr() == value.as_ptr());
        sent.extend_from_slice(ready);
        let count = ready.len();
        pipeline.sent(count);
    }
    assert_eq!(from_value, 3);
    assert!(sent == [text(b""), text(b"+OK\r\n"), text(b"")].concat());
}

#[test]
fn few_replies_of_unknown_size_are_asked_for_at_first_and_more_as_small_ones_come() {
    let mut pipeline = Pipeline::default();
    let ask_for_all = |pipeline: &mut Pipeline| {
        let before = pipeline.reserved();
        while !pipeline.is_full() {
            pipeline.reserve(false);
        }
        (before..pipeline.reserved()).collect::<Vec<u64>>()
    };
    for _ in 0..10 {
        let asked = ask_for_all(&mut pipeline);
        asked
            .iter()
            .for_each(|sequence| pipeline.complete(*sequence, b"+OK\r\n"));
        pipeline.sent(pipeline.ready_bytes());
    }
    let asked = ask_for_all(&mut pipeline);
    assert_eq!(asked.len(), Pipeline::REPLY_SLOTS_MAX);
    // While large ones come, no more than a few are under way.
    let mut pipeline = Pipeline::default();
    let asked = ask_for_all(&mut pipeline);
    assert_eq!(asked.len(), Pipeline::REPLY_SLOTS_MIN);
    for sequence in asked {
        pipeline.complete_with(sequence, vec![b'x'; Pipeline::UNSENT_BYTES_MAX / 4]);
        assert!(pipeline.is_full() || pipeline.is_settled());
    }
    while pipeline.ready_bytes() > 0 {
        pipeline.sent(pipeline.ready().len());
    }
    assert_eq!(ask_for_all(&mut pipeline).len(), 4);
}

#[test]
#[should_panic(expected = "given once")]
fn a_place_is_filled_once() {
    let mut pipeline = Pipeline::default();
    let sequence = pipeline.reserve(false);
    pipeline.complete(sequence, b"x");
    pipeline.complete(sequence, b"x");
}

//! What is said is what is heard.

use crate::any;
use crate::frames::receive;
use bytes::Bytes;
use consensus::{
    Beat, BeatAnswer, CLAIMS_MAX, Claim, Index, LogEntry, MessageBody as Said, Payload, RaftMessage, Term,
};
use ids::{Boot, Db, GatewayId, GroupId, Incarnation, Version};
use peer_wire::frame::{self, BODY_BYTES_MAX, FRAME_BYTES_MAX, HEAD_BYTES};
use peer_wire::{
    BULK_BYTES_MAX, BatchRequest, Coding, FrameBody, FrameKind, Leave, Packet, PeerMessage, Raft,
    SMALL_BYTES_MAX,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index as Place;
use replica::{ASKED_MAX, AskedKey, CodingMessage, Found};

fn encoded(message: &PeerMessage) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out).expect("generated messages are short");
    out
}

fn both_ways(kind: u8, body: &[u8]) -> [Result<PeerMessage, peer_wire::DecodeError>; 2] {
    [
        FrameBody::Borrowed(body),
        FrameBody::Owned(Bytes::copy_from_slice(body)),
    ]
    .map(|body| PeerMessage::decode(&Packet { kind, body }))
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(message in any::message()) {
        let bytes = encoded(&message);
        let kind = message.kind() as u8;
        prop_assert_eq!(bytes[4], kind);
        for decoded in both_ways(kind, &bytes[HEAD_BYTES..]) {
            prop_assert_eq!(decoded.as_ref(), Ok(&message));
        }
    }

    #[test]
    fn any_body_is_a_message_that_encodes_to_it_or_an_error(
        kind in prop_oneof![any::<u8>(), 16..48u8],
        body in vec(any::<u8>(), 0..120),
    ) {
        let [borrowed, owned] = both_ways(kind, &body);
        prop_assert_eq!(&borrowed, &owned);
        if let Ok(message) = borrowed {
            prop_assert_eq!(&encoded(&message)[HEAD_BYTES..], &body[..]);
        }
    }

    #[test]
    fn a_changed_body_is_a_message_that_encodes_to_it_or_an_error(
        message in any::message(),
        changes in vec((any::<Place>(), any::<u8>()), 0..4),
        length in any::<Place>(),
    ) {
        let bytes = encoded(&message);
        let mut body = bytes[HEAD_BYTES..].to_vec();
        for (place, byte) in changes {
            if !body.is_empty() {
                let at = place.index(body.len());
                body[at] = byte;
            }
        }
        body.truncate(length.index(body.len() + 1));
        let [borrowed, owned] = both_ways(bytes[4], &body);
        prop_assert_eq!(&borrowed, &owned);
        match borrowed {
            Ok(message) => prop_assert_eq!(&encoded(&message)[HEAD_BYTES..], &body[..]),
            Err(error) => prop_assert!(error.offset <= body.len()),
        }
    }
}

fn batch(writes: Bytes) -> PeerMessage {
    PeerMessage::Batch(BatchRequest {
        group: GroupId::new(7),
        gateway: GatewayId {
            boot: Boot(1),
            worker: 2,
        },
        batch: replica::Batch {
            generation: 3,
            sequence: 12,
            number: 9,
            acknowledged: 8,
            is_free: false,
            behind: 0,
            reads: Bytes::from_static(b"reads"),
            writes,
        },
    })
}

#[test]
fn every_kind_has_its_number() {
    for number in 0..=u8::MAX {
        let kind = FrameKind::of_number(number);
        assert!(kind.is_none_or(|kind| kind as u8 == number));
    }
    assert!(
        FrameKind::ALL
            .iter()
            .all(|&kind| FrameKind::of_number(kind as u8) == Some(kind))
    );
}

#[test]
fn a_long_batch_is_bulk_and_a_short_one_is_not() {
    assert!(!batch(Bytes::from(vec![1; SMALL_BYTES_MAX / 2])).is_bulk());
    assert!(batch(Bytes::from(vec![1; SMALL_BYTES_MAX])).is_bulk());
}

#[test]
fn small_messages_pass_between_the_frames_of_a_long_one() {
    let long = batch(Bytes::from(vec![1; 3 * BODY_BYTES_MAX]));
    let small = PeerMessage::Leave(Leave::Stopping);
    let (bulk, beat) = (encoded(&long), encoded(&small));
    let (mut at, mut link) = (0, Vec::new());
    while let Some(length) = frame::first_length(&bulk[at..]) {
        assert!(length <= FRAME_BYTES_MAX);
        link.extend_from_slice(&bulk[at..at + length]);
        link.extend_from_slice(&beat);
        at += length;
    }
    let received = receive(&link, &[]).unwrap();
    assert_eq!(received[3], long);
    assert_eq!(received.iter().filter(|&message| *message == small).count(), 4);
}

#[test]
fn a_large_payload_of_an_owned_body_is_not_copied_and_a_small_one_is() {
    let entry = |index, length| LogEntry {
        term: Term(1),
        index: Index(index),
        payload: Payload::Data(Bytes::from(vec![7; length])),
    };
    let message = PeerMessage::Raft(Raft {
        group: GroupId::new(1),
        message: RaftMessage {
            from: Incarnation(1),
            to: Incarnation(2),
            term: Term(3),
            body: Said::Append {
                log_term: Term(1),
                index: Index(4),
                commit: Index(4),
                entries: vec![entry(5, 100_000), entry(6, 10)],
            },
        },
    });
    let body = Bytes::copy_from_slice(&encoded(&message)[HEAD_BYTES..]);
    let place = body.as_ptr_range();
    let packet = Packet {
        kind: FrameKind::Raft as u8,
        body: FrameBody::Owned(body),
    };
    let Ok(PeerMessage::Raft(raft)) = PeerMessage::decode(&packet) else {
        panic!("it is what was encoded");
    };
    let Said::Append { entries, .. } = raft.message.body else {
        panic!("it is what was encoded");
    };
    let is_shared = |entry: &LogEntry| match &entry.payload {
        Payload::Data(bytes) => place.contains(&bytes.as_ptr()),
        Payload::Members(_) => false,
    };
    assert_eq!(entries.iter().map(is_shared).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn the_longest_heartbeat_is_one_small_frame() {
    let claim = Claim {
        group: GroupId::new(7),
        term: Term(1),
        leader: Incarnation(2),
        to: Incarnation(3),
    };
    let beat = |claims| {
        encoded(&PeerMessage::Heartbeat(Beat {
            boot: Boot(1),
            number: 2,
            digest: 3,
            claims: Some(vec![claim; claims]),
        }))
    };
    let longest = beat(CLAIMS_MAX);
    assert_eq!(frame::first_length(&longest), Some(longest.len()));
    assert_eq!(longest[5], 0, "no flags");
    // One more: the count and another claim.
    let mut body = longest[HEAD_BYTES..].to_vec();
    let count_at = 8 + 8 + 16 + 1;
    body[count_at..count_at + 4].copy_from_slice(&(CLAIMS_MAX as u32 + 1).to_le_bytes());
    body.extend([0; 26]);
    let [error, _] = both_ways(FrameKind::Heartbeat as u8, &body);
    assert_eq!(
        error.unwrap_err().expected,
        "no more claims than there can be groups"
    );
}

#[test]
fn refused_claims_stand_in_order() {
    let mut answer = encoded(&PeerMessage::HeartbeatAnswer(BeatAnswer {
        boot: Boot(1),
        number: 2,
        digest: 3,
        refused: Some(vec![4, 5]),
        start: Boot(6),
    }));
    let last = answer.len() - 8 - 2;
    answer[last] = 4;
    let [error, _] = both_ways(FrameKind::HeartbeatAnswer as u8, &answer[HEAD_BYTES..]);
    assert_eq!(error.unwrap_err().expected, "refused places in order");
}

#[test]
fn a_list_that_claims_to_be_huge_is_refused_before_room_is_made() {
    let mut body = encoded(&batch(Bytes::new()))[HEAD_BYTES..].to_vec();
    let count_at = 2 + 8 + 10 + 8 + 8 + 8 + 1 + 8;
    body[count_at..count_at + 4].fill(0xff);
    let packet = Packet {
        kind: FrameKind::Batch as u8,
        body: FrameBody::Borrowed(&body),
    };
    let error = PeerMessage::decode(&packet).unwrap_err();
    assert_eq!(
        (error.offset, error.expected),
        (count_at, "bytes that fit into what is there")
    );
}

fn of_fragments(message: CodingMessage) -> PeerMessage {
    PeerMessage::Coding(Coding {
        group: GroupId::new(7),
        generation: 1,
        from: Incarnation(2),
        to: Incarnation(3),
        message,
    })
}

#[test]
fn a_fragment_of_the_longest_value_goes_by_the_large_lane_and_is_not_copied() {
    // Half of the longest value, and what stands before it.
    let fragment = Bytes::from(vec![7; coding::WHOLE_BYTES_MAX / 2 + 32]);
    let found = vec![Found::Newer, Found::Fragment(fragment.clone()), Found::Older];
    let message = of_fragments(CodingMessage::Answer { number: 9, found });
    assert!(message.is_bulk() && message.is_longer_than(BULK_BYTES_MAX));
    let pieces = message.pieces().expect("it is short enough to be sent");
    assert!(pieces.iter().any(|piece| piece.as_ptr() == fragment.as_ptr()));
    drop((message, fragment));
    let body = Bytes::from(pieces.concat());
    let place = body.as_ptr_range();
    let packet = Packet {
        kind: FrameKind::Coding as u8,
        body: FrameBody::Owned(body),
    };
    let Ok(PeerMessage::Coding(coding)) = PeerMessage::decode(&packet) else {
        panic!("it is what was encoded");
    };
    let CodingMessage::Answer { number: 9, found } = coding.message else {
        panic!("it is what was encoded");
    };
    let [Found::Newer, Found::Fragment(fragment), Found::Older] = &found[..] else {
        panic!("it is what was encoded");
    };
    assert!(fragment.iter().all(|byte| *byte == 7) && place.contains(&fragment.as_ptr()));
}

#[test]
fn no_more_keys_are_asked_for_at_once_than_a_question_may_have() {
    let asked = AskedKey {
        db: Db::default(),
        key: b"k".to_vec().into(),
        version: Version(1),
    };
    let ask = |count| {
        let keys = vec![asked.clone(); count];
        encoded(&of_fragments(CodingMessage::Ask { number: 1, keys }))
    };
    let answer = |count| {
        let found = vec![Found::Older; count];
        encoded(&of_fragments(CodingMessage::Answer { number: 1, found }))
    };
    for (most, more) in [
        (ask(ASKED_MAX), ask(ASKED_MAX + 1)),
        (answer(ASKED_MAX), answer(ASKED_MAX + 1)),
    ] {
        let kind = FrameKind::Coding as u8;
        assert!(both_ways(kind, &most[HEAD_BYTES..]).iter().all(Result::is_ok));
        let [error, _] = both_ways(kind, &more[HEAD_BYTES..]);
        assert_eq!(
            error.unwrap_err().expected,
            "no more keys than one question may have"
        );
    }
}

#[test]
fn a_key_is_asked_for_in_a_database_that_a_group_keeps() {
    let last = Db::stored(Db::STORED - 1).expect("below the count");
    let asked = AskedKey {
        db: last,
        key: b"k".to_vec().into(),
        version: Version(1),
    };
    let (number, keys) = (1, vec![asked]);
    let mut message = encoded(&of_fragments(CodingMessage::Ask { number, keys }));
    let kind = FrameKind::Coding as u8;
    assert!(both_ways(kind, &message[HEAD_BYTES..]).iter().all(Result::is_ok));
    let db_at = message.len() - 1 - 4 - 8 - 1;
    assert_eq!(message[db_at], last.number());
    message[db_at] += 1;
    let [error, _] = both_ways(kind, &message[HEAD_BYTES..]);
    assert_eq!(error.unwrap_err().expected, "a database that a group keeps");
}

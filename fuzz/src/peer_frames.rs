//! What a peer sends.

use crate::source::Source;
use bytes::Bytes;
use coding::CodeEpoch;
use consensus::{
    Beat, BeatAnswer, Claim, Index, LogEntry, Members, Payload, RaftMessage, Scrubbed, SnapshotPoint, Term,
};
use ids::{Boot, Db, GatewayId, GroupId, Incarnation, NodeId, Prng, UnixMillis, Version};
use peer_wire::frame::{self, BODY_BYTES_MAX, Frame, FrameDecoder, FrameError, HEAD_BYTES};
use peer_wire::{
    Assembler, BatchRequest, Coding, FrameBody, FrameKind, Join, LENGTH_BYTES, Leave, Packet, PeerMessage,
    Question, Raft, ScrubHash,
};
use replica::{AskedKey, BatchOutcome, BatchResponse, CodingMessage, Holding};

/// Frames do not depend on how the network cuts them; any bodies are put together or an error; a body is a message that
/// encodes to it, or an error.
pub fn peer_frames(data: &[u8]) {
    let mut source = Source(data);
    match source.below(3) {
        0 => link(source),
        1 => bodies(source),
        _ => {
            let kind = source.byte();
            message(kind, source.0);
        }
    }
}

/// Bytes of a link, at once and in pieces.
fn link(mut source: Source<'_>) {
    let mut prng = Prng::new(u64::from(source.byte()));
    let stream = source.0;
    let at_once = frames(std::iter::once(stream));
    let mut rest = stream;
    let pieces = std::iter::from_fn(|| {
        let (piece, left) = rest.split_at(rest.len().min(1 + prng.below(30) as usize));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(at_once, frames(pieces));
    for (kind, _, body) in &at_once.0 {
        message(*kind, body);
    }
}

type Found = (u8, [bool; 3], Vec<u8>);

fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Found>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(BODY_BYTES_MAX);
    let (mut held, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut input = &held[..];
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    let Frame {
                        kind,
                        is_bulk,
                        has_more,
                        is_large,
                        body,
                    } = frame;
                    assert!(is_bulk || !has_more, "only bulk messages are cut");
                    assert!(is_bulk || !is_large, "what is large is bulk too");
                    found.push((kind, [is_bulk, has_more, is_large], body.to_vec()));
                }
                Err(error) => {
                    assert_eq!(decoder.next(&mut input), Err(error), "the same when asked again");
                    return (found, Some(error));
                }
            }
        }
        let left = input.len();
        held.drain(..held.len() - left);
    }
    (found, None)
}

/// Frames with any flags, in any order.
fn bodies(mut source: Source<'_>) {
    let mut assembler = Assembler::new();
    // Of the bulk message that is not whole yet, and of the large one.
    let (mut bulk, mut large) = (0, 0);
    let mut is_large_open = false;
    while !source.is_empty() {
        let flags = source.byte();
        let (is_bulk, has_more, is_large) = (flags & 1 != 0, flags & 3 == 3, flags & 5 == 5);
        let kind = source.byte();
        let length = usize::from(source.byte());
        let body = source.bytes(length);
        let frame = Frame {
            kind,
            is_bulk,
            has_more,
            is_large,
            body,
        };
        let Ok(packet) = assembler.push(frame) else { return };
        if is_large {
            // Before the first piece stands how long the message is.
            large += body.len() - if is_large_open { 0 } else { LENGTH_BYTES };
            is_large_open = true;
        } else if is_bulk {
            bulk += body.len();
        }
        if let Some(packet) = packet {
            assert!(!has_more);
            let length = match (is_large, is_bulk) {
                (true, _) => std::mem::take(&mut large),
                (false, true) => std::mem::take(&mut bulk),
                (false, false) => body.len(),
            };
            is_large_open &= !is_large;
            assert_eq!(packet.body.bytes().len(), length);
            message(packet.kind, packet.body.bytes());
        }
        assert_eq!(assembler.held_bytes(), bulk + large);
    }
}

fn message(kind: u8, body: &[u8]) {
    let [borrowed, owned] = [
        FrameBody::Borrowed(body),
        FrameBody::Owned(Bytes::copy_from_slice(body)),
    ]
    .map(|body| PeerMessage::decode(&Packet { kind, body }));
    assert_eq!(borrowed, owned, "a body is the same wherever it lies");
    if let Ok(message) = borrowed {
        assert_eq!(message.kind() as u8, kind);
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("it came in one frame");
        assert_eq!(&bytes[HEAD_BYTES..], body, "a message has one form");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut link = vec![0, 7];
    for message in messages() {
        let start = link.len();
        message.encode(&mut link).expect("a short message");
        let (kind, body) = (link[start + 4], &link[start + HEAD_BYTES..]);
        seeds.push([&[2, kind][..], body].concat());
        let (half, rest) = body.split_at(body.len() / 2);
        seeds.push(
            [
                &[1, 3, kind, half.len() as u8],
                half,
                &[1, kind, rest.len() as u8],
                rest,
            ]
            .concat(),
        );
        frame::append(&mut link, kind, true, |out| out.extend_from_slice(b"not one"));
    }
    seeds.extend(
        FrameKind::ALL
            .iter()
            .map(|&kind| [[2, kind as u8].to_vec(), vec![1; 60]].concat()),
    );
    seeds.push(link);
    seeds
}

fn messages() -> Vec<PeerMessage> {
    let group = GroupId::new(3);
    let gateway = GatewayId {
        boot: Boot(4),
        worker: 1,
    };
    let raft = |body| {
        PeerMessage::Raft(Raft {
            group,
            message: RaftMessage {
                from: Incarnation(1),
                to: Incarnation(2),
                term: Term(3),
                body,
            },
        })
    };
    let entry = |index, payload| LogEntry {
        term: Term(3),
        index: Index(index),
        payload,
    };
    let answers = |outcome| {
        PeerMessage::Answers(BatchResponse {
            group,
            generation: 2,
            term: Term(3),
            gateway,
            sequence: 9,
            outcome,
        })
    };
    let coding = |message| {
        PeerMessage::Coding(Coding {
            group,
            generation: 5,
            from: Incarnation(1),
            to: Incarnation(2),
            message,
        })
    };
    vec![
        raft(consensus::MessageBody::Append {
            log_term: Term(2),
            index: Index(7),
            commit: Index(6),
            entries: vec![
                entry(8, Payload::Data(Bytes::from_static(b"commands of clients"))),
                entry(9, Payload::Members(b"members".to_vec())),
            ],
        }),
        raft(consensus::MessageBody::AppendAnswer {
            index: Index(8),
            commit: Index(6),
            reject: Some((Index(5), Term(1))),
            start: Boot(2),
        }),
        raft(consensus::MessageBody::Snapshot(SnapshotPoint {
            index: Index(8),
            term: Term(2),
            members: Members {
                voters: vec![Incarnation(1), Incarnation(2)],
                learners: vec![Incarnation(3)],
                ..Members::default()
            },
        })),
        PeerMessage::Batch(BatchRequest {
            group,
            gateway,
            batch: replica::Batch {
                generation: 5,
                sequence: 12,
                number: 9,
                acknowledged: 8,
                is_free: false,
                behind: 0,
                reads: Bytes::from_static(b"reads"),
                writes: Bytes::from_static(b"writes"),
            },
        }),
        answers(BatchOutcome::Done(Bytes::from_static(b"answers").into())),
        answers(BatchOutcome::NotLeader {
            leader: Some(NodeId(2)),
        }),
        answers(BatchOutcome::Gap { applied: 3 }),
        PeerMessage::Heartbeat(Beat {
            boot: Boot(4),
            number: 6,
            digest: 7,
            claims: Some(vec![Claim {
                group,
                term: Term(3),
                leader: Incarnation(1),
                to: Incarnation(2),
            }]),
        }),
        PeerMessage::HeartbeatAnswer(BeatAnswer {
            boot: Boot(4),
            number: 6,
            digest: 7,
            refused: Some(vec![1, 3]),
            start: Boot(2),
        }),
        PeerMessage::MetaRequest(Question {
            id: 1,
            bytes: Bytes::from_static(b"who leads?"),
        }),
        PeerMessage::Join(Join {
            bytes: Bytes::from_static(b"me"),
        }),
        PeerMessage::Leave(Leave::Stopping),
        PeerMessage::WallClock(UnixMillis(1)),
        PeerMessage::Scrub(ScrubHash {
            group,
            generation: 1,
            from: Incarnation(1),
            to: Incarnation(2),
            format: 1,
            scrubbed: Scrubbed {
                at: Index(5),
                hash: 6,
            },
        }),
        coding(CodingMessage::Holding(Holding {
            kept: Version(7),
            epoch: Some(CodeEpoch(1)),
        })),
        coding(CodingMessage::Ask {
            number: 1,
            keys: vec![AskedKey {
                db: Db::default(),
                key: b"key".to_vec().into(),
                version: Version(7),
            }],
        }),
        coding(CodingMessage::Answer {
            number: 1,
            found: vec![
                replica::Found::Fragment(Bytes::from_static(b"half")),
                replica::Found::Newer,
                replica::Found::Older,
            ],
        }),
        coding(CodingMessage::Damaged(AskedKey {
            db: Db::default(),
            key: b"key".to_vec().into(),
            version: Version(7),
        })),
    ]
}
